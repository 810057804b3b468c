"""Operations, loops, collectives and memory of a compiled program, read from its optimised HLO."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from dataclasses import dataclass

import jax

from hackmatrix.compile_cache.programs import without_persistent_cache

# An instruction: its name, its shape (anything but a call), its opcode.
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][a-z0-9\-]*)\(")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
# The computations that an instruction runs as part of the program, not inside one kernel.
_RUNS = {
    "call": re.compile(r"to_apply=%?([\w.\-]+)"),
    "while": re.compile(r"(?:condition|body)=%?([\w.\-]+)"),
    "conditional": re.compile(r"(?:true_computation|false_computation)=%?([\w.\-]+)"),
}
_SHAPES = re.compile(r"= (.*?) [a-z][a-z0-9\-]*\(")
_ARRAY = re.compile(r"\b(?:pred|[a-z]+(\d+))\w*\[([\d,]*)\]")
_SCRATCH = re.compile(r'"memory_space":"1","offset":"\d+","size":"(\d+)"')
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
# Opcodes that only name or arrange values, or whose computations are counted instead.
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
    """Counts of the instructions in a program. Those in the body of a loop count once; those of a
    function that is called in several places count once for each.
    """

    fusions: int
    others: int  # work outside fusions: copies, scatters, sorts, products, ...
    loops: int
    collectives: tuple[str, ...]  # their kinds
    temporary_bytes: int  # on one device
    code_bytes: int
    scratch_bytes: int  # the most on-chip memory that one kernel uses; 0 except on TPUs


@dataclass(frozen=True)
class Collective:
    kind: str
    size: int  # in bytes, of its result on one device


@dataclass(frozen=True)
class Loop:
    """A loop of a program, without the loops in it."""

    collectives: list[Collective]
    cycles: int  # of one iteration, as the compiler estimates them: 0 except on TPUs


def facts(program: jax.stages.Compiled) -> Facts:
    text, memory = program.as_text(), program.memory_analysis()
    if text is None or memory is None:
        raise ValueError("this backend does not report the HLO and memory of compiled programs")
    counts = instructions(text)
    return Facts(
        fusions=counts["fusion"],
        others=sum(
            count
            for opcode, count in counts.items()
            if opcode not in _BOOKKEEPING and opcode != "fusion" and not opcode.endswith("-done")
        ),
        loops=counts["while"],
        collectives=tuple(sorted({kind for name in counts if (kind := _collective(name))})),
        temporary_bytes=memory.temp_size_in_bytes,
        code_bytes=memory.generated_code_size_in_bytes,
        scratch_bytes=max(map(int, _SCRATCH.findall(text)), default=0),
    )


def instructions(hlo: str) -> Counter[str]:
    """Counts the instructions of each kind outside fusions; those in a loop count once."""
    entry, computations = _computations(hlo)
    total: Counter[str] = Counter()
    waiting = [entry]
    while waiting:
        for opcode, line in computations[waiting.pop()]:
            total[opcode] += 1
            waiting += _run_by(opcode, line)
    return total


def loops(hlo: str) -> list[Loop]:
    """Returns what runs outside all loops, then each loop, nested ones apart. Those with neither
    collectives nor cycles are left out.
    """
    entry, computations = _computations(hlo)
    found = []
    outside = [entry]
    while outside:
        collectives: list[Collective] = []
        cycles = 0
        waiting = [outside.pop()]
        while waiting:
            for opcode, line in computations[waiting.pop()]:
                if kind := _collective(opcode):
                    collectives.append(Collective(kind, _size(line)))
                cycles += sum(map(int, _CYCLES.findall(line)))
                (outside if opcode == "while" else waiting).extend(_run_by(opcode, line))
        if collectives or cycles:
            found.append(Loop(collectives, cycles))
    return found


def _collective(opcode: str) -> str | None:
    """Returns the kind of a collective, such as all-reduce; None for other opcodes and for the end
    of an asynchronous one, so that it counts once.
    """
    counts = opcode.startswith(_COLLECTIVES) and not opcode.endswith("-done")
    return opcode.removesuffix("-start") if counts else None


def _size(line: str) -> int:
    """Returns the bytes of the arrays that an instruction produces."""
    shapes = _SHAPES.search(line)
    arrays = _ARRAY.findall(shapes[1]) if shapes else []
    return sum(
        math.prod(int(length) for length in lengths.split(",") if length) * int(bits or 8) // 8
        for bits, lengths in arrays
    )


def memory(program: jax.stages.Compiled) -> int:
    """Returns the bytes that a program needs on a device while it runs, its code included."""
    needs = program.memory_analysis()
    assert needs is not None  # the compilers for CPUs, GPUs and TPUs all report it
    return (
        needs.argument_size_in_bytes
        + needs.output_size_in_bytes
        - needs.alias_size_in_bytes
        + needs.temp_size_in_bytes
        + needs.generated_code_size_in_bytes
    )


def _computations(hlo: str) -> tuple[str, dict[str, list[tuple[str, str]]]]:
    """Returns the entry's name, and the instructions of each computation: opcode and line."""
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
    """Compiles a program without JAX's persistent cache, and returns it with the seconds taken."""
    with without_persistent_cache():
        start = time.perf_counter()
        program = lowered.compile(options)
        return program, time.perf_counter() - start
