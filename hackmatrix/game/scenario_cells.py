"""Conversion of the cells of a scenario (see `scenario`) to a board's bit sets, and back."""

from __future__ import annotations

from typing import Any

from hackmatrix.game import bits
from hackmatrix.game.cells import CELLS, HALF, CellSet, constant
from hackmatrix.game.checks import flag, integer, length, require_keys
from hackmatrix.game.programs import Program
from hackmatrix.game.state import Board

_PARTS_OF_KIND = {".": 2, "S": 2, "X": 2, "D": 4, "P": 4, "QD": 4, "QP": 4}
_SETS = (
    "data", "program", "question", "data_siphon", "exit", "siphoned", "centre", "energy",
)  # fmt: skip
_DIGITS = {"label": bits.LABEL, "spawn": bits.SPAWN, "amount": bits.AMOUNT}
_MOST = {name: bits.greatest(places) for name, places in _DIGITS.items()}


def read(cells: Any, where: str) -> Board:
    """Returns the board of a scenario's 36 cells."""
    length(cells, where, CELLS)
    sets: dict[str, list[int]] = {name: [] for name in _SETS}
    numbers: dict[str, list[int]] = {name: [0] * CELLS for name in _DIGITS}
    for cell, entry in enumerate(cells):
        _read_cell(entry, cell, sets, numbers, f"{where}[{cell}]")
    fields: dict[str, Any] = {
        **{name: constant(members) for name, members in sets.items()},
        **{name: _digits(numbers[name], places) for name, places in _DIGITS.items()},
    }
    return Board(**fields)


def _read_cell(
    entry: Any, cell: int, sets: dict[str, list[int]], numbers: dict[str, list[int]], where: str
) -> None:
    kind = entry[0] if isinstance(entry, list | tuple) and entry else None
    if not isinstance(kind, str) or kind not in _PARTS_OF_KIND:
        raise ValueError(
            f"{where}: unknown kind {kind!r}, expected one of {' '.join(_PARTS_OF_KIND)}"
        )
    length(entry, where, _PARTS_OF_KIND[kind])
    flags = entry[-1]
    require_keys(flags, ("c", "e", "s", "m"), where)
    credits, energy = (integer(flags[key], f"{where}.{key}", 0, _MOST["amount"]) for key in "ce")
    if credits and energy:
        raise ValueError(
            f"{where}: has c: {credits} and e: {energy}, but a cell holds only one of the two"
        )
    numbers["amount"][cell] = credits + energy
    if energy:
        sets["energy"].append(cell)
    for name, key in (("siphoned", "s"), ("centre", "m")):
        if flag(flags[key], f"{where}.{key}"):
            sets[name].append(cell)
    if kind in ("S", "X"):
        sets["data_siphon" if kind == "S" else "exit"].append(cell)
    if kind[-1] in "DP":
        is_data = kind[-1] == "D"
        sets["data" if is_data else "program"].append(cell)
        label = "points" if is_data else "program"
        highest = _MOST["label"] if is_data else len(Program) - 1
        numbers["label"][cell] = integer(entry[1], f"{where}.{label}", 0, highest)
        numbers["spawn"][cell] = integer(entry[2], f"{where}.spawn", 0, _MOST["spawn"])
    if kind[0] == "Q":
        sets["question"].append(cell)


def write(board: Board) -> list[list[Any]]:
    """Returns a board's 36 cells for a scenario."""
    sets = {name: _members(getattr(board, name)) for name in _SETS}
    numbers = {name: _numbers(getattr(board, name)) for name in _DIGITS}
    return [_write_cell(cell, sets, numbers) for cell in range(CELLS)]


def _write_cell(cell: int, sets: dict[str, list[int]], numbers: dict[str, list[int]]) -> list[Any]:
    amount, is_energy = numbers["amount"][cell], cell in sets["energy"]
    flags = {
        "c": 0 if is_energy else amount, "e": amount if is_energy else 0,
        "s": int(cell in sets["siphoned"]), "m": int(cell in sets["centre"]),
    }  # fmt: skip
    is_data = cell in sets["data"]
    if is_data or cell in sets["program"]:
        kind = ("Q" if cell in sets["question"] else "") + ("D" if is_data else "P")
        return [kind, numbers["label"][cell], numbers["spawn"][cell], flags]
    kind = "S" if cell in sets["data_siphon"] else "X" if cell in sets["exit"] else "."
    return [kind, flags]


def _members(cells: CellSet) -> list[int]:
    """Returns the numbers of the cells of a set, greatest first."""
    word, members = int(cells.low) | int(cells.high) << HALF, []
    while word:
        members.append(word.bit_length() - 1)
        word -= 1 << members[-1]
    return members


def _numbers(digits: tuple[CellSet, ...]) -> list[int]:
    """Returns the number in each cell, 0 where there is none."""
    numbers = [0] * CELLS
    for place, digit in enumerate(digits):
        for cell in _members(digit):
            numbers[cell] += 1 << place
    return numbers


def _digits(numbers: list[int], places: int) -> tuple[CellSet, ...]:
    return tuple(
        constant(cell for cell, number in enumerate(numbers) if number >> place & 1)
        for place in range(places)
    )
