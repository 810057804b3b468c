"""Converts states that clients of the headless protocol set to scenarios (`game.scenario`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hackmatrix.envs.headless.view import ENEMIES, Place
from hackmatrix.game import bits
from hackmatrix.game.bits import greatest, greatest_to_grow
from hackmatrix.game.cells import SIZE
from hackmatrix.game.checks import flag, integer, require_keys, sequence
from hackmatrix.game.programs import PROGRAMS
from hackmatrix.game.state import FIRST_INTERVAL, FIRST_PROGRAM, STAGES

_EXIT = [SIZE - 1, SIZE - 1]
_MOST = 1 << 20  # a loose bound for numbers whose limits `scenario.load` checks


def read_state(state: Mapping[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Returns the scenario of a state, and the owned programs in their order.

    Raises ValueError naming the field that is wrong. The game's own limits are checked by
    `scenario.load`, which uses the same names.
    """
    require_keys(state, ["player"], "state")
    owned = _read_owned(_list(state, "ownedPrograms"))
    board = {
        "player": _read_player(state["player"]),
        "stage": _integer(state, "stage", "state", 1, STAGES, 1),
        "turn": _integer(state, "turn", "state", 0, _MOST, 0),
        "exit": _EXIT,
        "cells": _read_cells(state),
        "enemies": [_read_enemy(entry, where) for entry, where in _entries(state, "enemies")],
        "transmissions": [
            _read_transmission(entry, where) for entry, where in _entries(state, "transmissions")
        ],
        "owned": sorted(owned),
        "show": _flag(state, "showActivated", "state"),
        "calm": _flag(state, "scheduledTasksDisabled", "state"),
        "step": 0, "atk_uses": 0, "pending": 0,
        "interval": FIRST_INTERVAL, "next_task": FIRST_INTERVAL,
    }  # fmt: skip
    return board, owned


def _read_owned(actions: list[Any]) -> list[int]:
    last = FIRST_PROGRAM + len(PROGRAMS) - 1
    programs = [
        integer(action, "ownedPrograms", FIRST_PROGRAM, last) - FIRST_PROGRAM for action in actions
    ]
    return list(dict.fromkeys(programs))


def _read_player(player: Any) -> list[int]:
    where = "player"
    require_keys(player, ["row", "col"], where)
    numbers = {
        "hp": (0, _MOST, 3),
        "credits": (0, _MOST, 0),
        "energy": (0, _MOST, 0),
        "dataSiphons": (0, greatest_to_grow(bits.DATA_SIPHONS), 0),
        "attackDamage": (0, greatest_to_grow(bits.ATTACK), 1),
        "score": (-_MOST, _MOST, 0),
    }
    rest = [_integer(player, name, where, *limits) for name, limits in numbers.items()]
    return [*_place(player, where), *rest]


def _read_enemy(enemy: Any, where: str) -> list[int]:
    require_keys(enemy, ["type", "row", "col", "hp"], where)
    names = ("stunned", "spawnedFromSiphon", "isFromScheduledTask")
    flags = [_flag(enemy, name, where) for name in names]
    return [
        _enemy_type(enemy["type"], f"{where}.type"),
        *_place(enemy, where),
        _integer(enemy, "hp", where, 1, _MOST, None),
        0,
        *flags,
    ]


def _read_transmission(transmission: Any, where: str) -> list[int]:
    require_keys(transmission, ["row", "col", "turnsRemaining", "enemyType"], where)
    return [
        *_place(transmission, where),
        _integer(transmission, "turnsRemaining", where, 0, greatest(bits.TURNS), None),
        _enemy_type(transmission["enemyType"], f"{where}.enemyType"),
        0,
        0,
    ]


def _read_cells(state: Mapping[str, Any]) -> list[list[Any]]:
    """Returns the cells: the exit in its corner, then the blocks, then the resources over them."""
    cells: list[list[Any]] = [[".", {"c": 0, "e": 0, "s": 0, "m": 0}] for _ in range(SIZE * SIZE)]
    cells[SIZE * _EXIT[0] + _EXIT[1]][0] = "X"
    for block, where in _entries(state, "blocks"):
        require_keys(block, ["row", "col", "type"], where)
        cells[_number(block, where)] = _read_block(block, where)
    for resource, where in _entries(state, "resources"):
        require_keys(resource, ["row", "col"], where)
        _put_resource(cells[_number(resource, where)], resource, where)
    return cells


def _read_block(block: Mapping[str, Any], where: str) -> list[Any]:
    flags = {"c": 0, "e": 0, "s": _flag(block, "siphoned", where), "m": 0}
    most = greatest(bits.SPAWN)
    if block["type"] == "data":
        points = _integer(block, "points", where, 0, greatest(bits.LABEL), 5)
        count = "points" if _given(block, "spawnCount", None) is None else "spawnCount"
        return ["D", points, _integer(block, count, where, 0, most, 5), flags]
    if block["type"] == "program":
        spawn = _integer(block, "spawnCount", where, 0, most, 2)
        return ["P", _program(block, where), spawn, flags]
    raise ValueError(f"{where}.type: {block['type']!r} is neither data nor program")


def _put_resource(cell: list[Any], resource: Mapping[str, Any], where: str) -> None:
    if _flag(resource, "dataSiphon", where):
        cell[:] = ["S", cell[-1]]
        return
    names = "credits", "energy"
    name, other = names if _given(resource, "credits", 0) else names[::-1]
    amount = _integer(resource, name, where, 0, greatest(bits.AMOUNT), 0)
    if amount and cell[-1][other[0]]:
        row, col = _place(resource, where)
        raise ValueError(
            f"{where}: row {row} col {col} already has {other}, but a cell holds credits or "
            "energy, not both"
        )
    cell[-1][name[0]] = amount


def _program(block: Mapping[str, Any], where: str) -> int:
    """Returns the number of the program that a block names, in any of its usual spellings."""
    require_keys(block, ["programType"], where)
    spellings = {_plain(name): number for number, name in enumerate(PROGRAMS)}
    spellings["dbomb"] = spellings["dbom"]
    name = block["programType"]
    if not isinstance(name, str) or _plain(name) not in spellings:
        raise ValueError(f"{where}.programType: there is no program {name!r}")
    return spellings[_plain(name)]


def _plain(name: str) -> str:
    """Normalizes a name: siph+ for SIPH+, siph_plus and siph-plus."""
    return name.lower().replace("plus", "+").replace("_", "").replace("-", "").replace(" ", "")


def _enemy_type(name: Any, where: str) -> int:
    if name not in ENEMIES:
        raise ValueError(f"{where}: {name!r} is not one of {', '.join(ENEMIES)}")
    return ENEMIES.index(name)


def _place(entry: Mapping[str, Any], where: str) -> Place:
    row, col = (integer(entry[name], f"{where}.{name}", 0, SIZE - 1) for name in ("row", "col"))
    return row, col


def _number(entry: Mapping[str, Any], where: str) -> int:
    row, col = _place(entry, where)
    return SIZE * row + col


def _list(state: Mapping[str, Any], name: str) -> list[Any]:
    return sequence(_given(state, name, []), name)


def _entries(state: Mapping[str, Any], name: str) -> list[tuple[Any, str]]:
    """Returns the entries of a list, each with its name, such as blocks[2]."""
    return [(entry, f"{name}[{number}]") for number, entry in enumerate(_list(state, name))]


def _integer(
    entry: Mapping[str, Any], name: str, where: str, low: int, high: int, default: int | None
) -> int:
    return integer(_given(entry, name, default), f"{where}.{name}", low, high)


def _flag(entry: Mapping[str, Any], name: str, where: str) -> int:
    return int(flag(_given(entry, name, False), f"{where}.{name}"))


def _given(entry: Mapping[str, Any], name: str, default: Any) -> Any:
    """Returns a field, or the default where it is left out or null."""
    value = entry.get(name)
    return default if value is None else value
