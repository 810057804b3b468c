"""Operations, loops, collectives and memory of a compiled program, read from its optimised HLO."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from dataclasses import dataclass

import jax

from hackmatrix.compile_cache.programs import without_persistent_cache

# An instruction: its name, its shape (which may hold anything but a call), its opcode.
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][a-z0-9\-]*)\(")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
# What an instruction runs as part of the program, and not inside of one kernel.
_RUNS = {
    "call": re.compile(r"to_apply=%?([\w.\-]+)"),
    "while": re.compile(r"(?:condition|body)=%?([\w.\-]+)"),
    "conditional": re.compile(r"(?:true_computation|false_computation)=%?([\w.\-]+)"),
}
_SHAPES = re.compile(r"= (.*?) [a-z][a-z0-9\-]*\(")
_ARRAY = re.compile(r"\b(?:pred|[a-z]+(\d+))\w*\[([\d,]*)\]")
_SCRATCH = re.compile(r'"memory_space":"1","offset":"\d+","size":"(\d+)"')
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
    code_bytes: int
    scratch_bytes: int  # the most memory beside its arithmetic that one kernel uses; TPUs tell


@dataclass(frozen=True)
class Collective:
    kind: str
    size: int  # in bytes, of its result on one device


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
        code_bytes=memory.generated_code_size_in_bytes,
        scratch_bytes=max(map(int, _SCRATCH.findall(text)), default=0),
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


def collectives(hlo: str) -> list[list[Collective]]:
    """The collectives outside of all loops, then those of each loop without the loops inside of it;
    only where there are any.
    """
    entry, computations = _computations(hlo)
    loops = []
    outside = [entry]
    while outside:
        own = []
        waiting = [outside.pop()]
        while waiting:
            for opcode, line in computations[waiting.pop()]:
                if opcode.startswith(_COLLECTIVES) and not opcode.endswith("-done"):
                    own.append(Collective(opcode.removesuffix("-start"), _size(line)))
                (outside if opcode == "while" else waiting).extend(_run_by(opcode, line))
        if own:
            loops.append(own)
    return loops


def _size(line: str) -> int:
    """The bytes of the arrays that an instruction makes."""
    shapes = _SHAPES.search(line)
    arrays = _ARRAY.findall(shapes[1]) if shapes else []
    return sum(
        math.prod(int(length) for length in lengths.split(",") if length) * int(bits or 8) // 8
        for bits, lengths in arrays
    )


def memory(program: jax.stages.Compiled) -> int:
    """The bytes that a program needs on a device while it runs, its code included."""
    needs = program.memory_analysis()
    assert needs is not None  # the compilers of CPUs, GPUs and TPUs all know
    return (
        needs.argument_size_in_bytes
        + needs.output_size_in_bytes
        - needs.alias_size_in_bytes
        + needs.temp_size_in_bytes
        + needs.generated_code_size_in_bytes
    )


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


def compile_afresh(
    lowered: jax.stages.Lowered, options: dict[str, str | bool] | None = None
) -> tuple[jax.stages.Compiled, float]:
    """The program, compiled with these options, and the seconds its compilation took."""
    with without_persistent_cache():
        start = time.perf_counter()
        program = lowered.compile(options)
        return program, time.perf_counter() - start
