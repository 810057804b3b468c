"""What a compiled program is made of, read from its optimised HLO."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import jax
from jax.experimental.compilation_cache import compilation_cache

# An instruction: its name, its shape (which may hold anything but a call), its opcode.
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][a-z0-9\-]*)\(")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
# What an instruction runs as part of the program, and not inside of one kernel.
_RUNS = {
    "call": re.compile(r"to_apply=%?([\w.\-]+)"),
    "while": re.compile(r"(?:condition|body)=%?([\w.\-]+)"),
    "conditional": re.compile(r"(?:true_computation|false_computation)=%?([\w.\-]+)"),
}
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
# They name or arrange values, and are no work of their own.
_BOOKKEEPING = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier",
    "call", "while", "conditional", "partition-id", "replica-id",
}  # fmt: skip
_COLLECTIVES = (
    "all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-permute",
    "collective-broadcast", "ragged-all-to-all", "send", "recv",
)  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """Counts of instructions as they stand in the program: those in the body of a loop once.

    A function that is called at several places counts at each.
    """

    fusions: int
    others: int  # work outside of fusions: copies, scatters, sorts, products, ...
    loops: int
    collectives: tuple[str, ...]
    temporary_bytes: int  # on one device


def facts(program: jax.stages.Compiled) -> Facts:
    text, memory = program.as_text(), program.memory_analysis()
    if text is None or memory is None:
        raise ValueError("this backend does not say what its compiled programs are made of")
    counts = instructions(text)
    return Facts(
        fusions=counts["fusion"],
        others=sum(
            count
            for opcode, count in counts.items()
            if opcode not in _BOOKKEEPING and opcode != "fusion" and not opcode.endswith("-done")
        ),
        loops=counts["while"],
        collectives=tuple(sorted(name for name in counts if name.startswith(_COLLECTIVES))),
        temporary_bytes=memory.temp_size_in_bytes,
    )


def instructions(hlo: str) -> Counter[str]:
    """How many instructions of each kind the program runs, loops once; none inside of a fusion."""
    entry, computations = _computations(hlo)
    total: Counter[str] = Counter()
    waiting = [entry]
    while waiting:
        for opcode, line in computations[waiting.pop()]:
            total[opcode] += 1
            waiting += _run_by(opcode, line)
    return total


def _computations(hlo: str) -> tuple[str, dict[str, list[tuple[str, str]]]]:
    """The name of the entry, and each computation's instructions: opcode and line."""
    entry = name = ""
    computations: dict[str, list[tuple[str, str]]] = {}
    for line in hlo.splitlines():
        if start := _COMPUTATION.match(line):
            name = start[2]
            computations[name] = []
            entry = name if start[1] else entry
        elif found := _INSTRUCTION.match(line):
            computations[name].append((found[1], line))
    return entry, computations


def _run_by(opcode: str, line: str) -> list[str]:
    if opcode not in _RUNS:
        return []
    branches = _BRANCHES.search(line)
    listed = re.findall(r"[\w.\-]+", branches[1]) if branches else []
    return _RUNS[opcode].findall(line) + listed


def compile_afresh(lowered: jax.stages.Lowered) -> tuple[jax.stages.Compiled, float]:
    """The compiled program and the seconds its compilation took."""
    with _without_persistent_cache():
        start = time.perf_counter()
        program = lowered.compile()
        return program, time.perf_counter() - start


@contextmanager
def _without_persistent_cache() -> Iterator[None]:
    before = jax.config.values["jax_enable_compilation_cache"]
    # JAX looks at the setting once, and again only after a reset.
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        compilation_cache.reset_cache()
