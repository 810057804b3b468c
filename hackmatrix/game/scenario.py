"""Scenarios: states as plain dictionaries, to write and read boards, or to set one up by hand.

player         [row, column, hp, credits, energy, data siphons, attack, score]
stage, turn    integers
exit           [row, column]
cells          36, row by row from row 0, each [kind, ..., flags]
               kind: ".", "S" (data siphon), "X" (exit), "D", points, spawn (data block),
               "P", program 0..22, spawn (program block), "QD" and "QP" (the same, hidden);
               flags: {c: credits, e: energy, s: siphoned, m: siphon centre}; never both c and e
enemies        [type, row, column, hp, disabled, stunned, from siphon, from schedule] each
transmissions  [row, column, turns, type, from siphon, from schedule] each
owned          program numbers
others         show, calm, step: 0 or 1; atk_uses, pending, interval, next_task: integers
history        snapshots, oldest first
history_depth  how many snapshots there are (default: those given). If it is greater, the oldest
               ones are unknown: UNDO is valid there, but what it would restore is lost.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import bits, history, scenario_cells
from hackmatrix.game.bits import WORD, greatest, greatest_to_grow
from hackmatrix.game.cells import SIZE
from hackmatrix.game.checks import flag, i32_up_to, integer, length, require_keys, sequence
from hackmatrix.game.programs import ACTIONS, Program
from hackmatrix.game.slots import CAPACITY
from hackmatrix.game.state import (
    ENEMY_HP,
    HISTORY_DEPTH,
    MAX_HP,
    STAGES,
    Enemies,
    History,
    Player,
    State,
    Transmissions,
)

Array = jax.Array

_ENEMY = ["type", "row", "column", "hp", "disabled", "stunned", "from_siphon", "from_schedule"]
_TRANSMISSION = ["row", "column", "turns", "type", "from_siphon", "from_schedule"]
_LAST = SIZE - 1
_SNAPSHOT_KEYS = [
    "player", "turn", "cells", "enemies", "transmissions", "owned", "show", "calm", "atk_uses",
]  # fmt: skip
_GREATEST_COUNT = greatest_to_grow(WORD - 1)
_MOST_PENDING = 1023  # all appear one by one in the same enemy turn; real games have tens
_MOST_SCORE = 100_000  # with a little more the reward of a victory overflows int32 (reward.UNITS)
_KEYS = [*_SNAPSHOT_KEYS, "stage", "exit", "step", "pending", "interval", "next_task"]


def load(scenario: Mapping[str, Any], history_depth: int = HISTORY_DEPTH) -> State:
    """Returns the state of a scenario. Raises ValueError that names a wrong field and its value."""
    integer(history_depth, "the argument history_depth", 1, history.DEEPEST)
    require_keys(scenario, _KEYS, "scenario")
    snapshots = sequence(scenario.get("history", []), "history")
    depth = min(
        integer(scenario.get("history_depth", len(snapshots)), "history_depth", 0, history.DEEPEST),
        history_depth,
    )
    stage: Any = np.int32(integer(scenario["stage"], "stage", 1, STAGES + 1))
    length(scenario["exit"], "exit", 2)
    return State(
        **_read_snapshot(scenario, ""),
        stage=stage,
        exit_cell=_cell(scenario["exit"], "exit"),
        step=flag(scenario["step"], "step"),
        pending=i32_up_to(scenario["pending"], "pending", _MOST_PENDING),
        interval=i32_up_to(scenario["interval"], "interval", _GREATEST_COUNT),
        next_task=i32_up_to(scenario["next_task"], "next_task", _GREATEST_COUNT),
        history=_read_history(snapshots, depth, history_depth),
    )


def dump(state: State) -> dict[str, Any]:
    """Returns the scenario of a state (one board)."""
    if np.ndim(state.stage):
        raise ValueError(
            "dump takes one board: select it with jax.tree.map(lambda leaf: leaf[i], states)"
        )
    return {
        **_write_snapshot(state),
        "stage": int(state.stage),
        "exit": [*divmod(int(state.exit_cell), SIZE)],
        "step": int(state.step),
        **{name: int(getattr(state, name)) for name in ("pending", "interval", "next_task")},
        "history_depth": int(state.history.depth),
        "history": [_write_snapshot(snapshot) for snapshot in _known_snapshots(state.history)],
    }


def check_action(action: Any) -> int:
    """Returns the action as an integer. Raises ValueError unless it is one from 0 to 27."""
    return integer(action, "action", 0, ACTIONS - 1)


def _read_snapshot(scenario: Mapping[str, Any], where: str) -> dict[str, Any]:
    require_keys(scenario, _SNAPSHOT_KEYS, where or "scenario")
    owned = 0
    for program in sequence(scenario["owned"], f"{where}owned"):
        owned |= 1 << integer(program, f"{where}owned", 0, len(Program) - 1)
    return {
        "player": _read_player(scenario["player"], f"{where}player"),
        "board": scenario_cells.read(scenario["cells"], f"{where}cells"),
        "enemies": _read_enemies(scenario["enemies"], f"{where}enemies"),
        "transmissions": _read_transmissions(scenario["transmissions"], f"{where}transmissions"),
        "owned": np.uint32(owned),
        "turn": i32_up_to(scenario["turn"], f"{where}turn", greatest_to_grow(bits.TURN)),
        "atk_uses": i32_up_to(
            scenario["atk_uses"], f"{where}atk_uses", greatest_to_grow(bits.ATK_USES)
        ),
        **{name: flag(scenario[name], where + name) for name in ("show", "calm")},
    }


def _write_snapshot(state: State) -> dict[str, Any]:
    player, owned = state.player, int(state.owned)
    return {
        "player": [
            *divmod(int(player.cell), SIZE),
            *(int(getattr(player, name)) for name in _PLAYER_REST),
        ],
        "turn": int(state.turn),
        "cells": scenario_cells.write(state.board),
        "enemies": _write_entries(state.enemies, _ENEMY),
        "transmissions": _write_entries(state.transmissions, _TRANSMISSION),
        "owned": [number for number in range(len(Program)) if owned >> number & 1],
        "show": int(state.show),
        "calm": int(state.calm),
        "atk_uses": int(state.atk_uses),
    }


# The fields after the player's row and column, each with its least and greatest value.
_PLAYER_REST = {
    "hp": (0, MAX_HP),
    "credits": (0, greatest_to_grow(bits.CREDITS)),
    "energy": (0, greatest_to_grow(bits.ENERGY)),
    "data_siphons": (0, greatest_to_grow(bits.DATA_SIPHONS)),
    "attack": (0, greatest_to_grow(bits.ATTACK)),
    "score": (-_MOST_SCORE, _MOST_SCORE),
}


def _read_player(values: Any, where: str) -> Player:
    length(values, where, 2 + len(_PLAYER_REST))
    numbers: dict[str, Any] = {
        name: np.int32(integer(value, f"{where}.{name}", low, high))
        for value, (name, (low, high)) in zip(values[2:], _PLAYER_REST.items(), strict=True)
    }
    return Player(cell=_cell(values[:2], where), **numbers)


def _cell(position: Any, where: str) -> Any:
    row, column = (integer(value, where, 0, _LAST) for value in position)
    return np.int32(SIZE * row + column)


def _read_enemies(entries: Any, where: str) -> Enemies:
    limits = {"hp": (1, 3), "type": (0, 3)}
    columns = _read_entries(entries, _ENEMY, limits, where)
    for number, (kind, hp) in enumerate(zip(columns["type"], columns["hp"], strict=True)):
        integer(hp, f"{where}[{number}].hp", 1, ENEMY_HP[kind])
    return Enemies(
        present=_present(columns),
        hp=_digits(columns["hp"], bits.HP),
        disabled=_digits(columns["disabled"], 1)[0],
        stunned=_digits(columns["stunned"], 1)[0],
        **_placed(columns),
    )


def _read_transmissions(entries: Any, where: str) -> Transmissions:
    limits = {"turns": (0, greatest(bits.TURNS)), "type": (0, 3)}
    columns = _read_entries(entries, _TRANSMISSION, limits, where)
    return Transmissions(
        present=_present(columns), turns=_digits(columns["turns"], bits.TURNS), **_placed(columns)
    )


def _read_entries(
    entries: Any, fields: list[str], limits: dict[str, tuple[int, int]], where: str
) -> dict[str, list[int]]:
    """Returns the values of each field, one per entry."""
    if len(sequence(entries, where)) > CAPACITY:
        raise ValueError(f"{where}: {len(entries)} entries, but at most {CAPACITY} are supported")
    limits = {"row": (0, _LAST), "column": (0, _LAST), **limits}
    columns: dict[str, list[int]] = {name: [] for name in fields}
    for number, entry in enumerate(entries):
        length(entry, f"{where}[{number}]", len(fields))
        for name, value in zip(fields, entry, strict=True):
            place = f"{where}[{number}].{name}"
            known = integer(value, place, *limits[name]) if name in limits else flag(value, place)
            columns[name].append(int(known))
    return columns


def _placed(columns: dict[str, list[int]]) -> dict[str, Any]:
    return {
        "row": _digits(columns["row"], bits.LINE),
        "column": _digits(columns["column"], bits.LINE),
        "kind": _digits(columns["type"], bits.KIND),
        "from_siphon": _digits(columns["from_siphon"], 1)[0],
        "from_schedule": _digits(columns["from_schedule"], 1)[0],
    }


def _present(columns: dict[str, list[int]]) -> Any:
    return np.uint32((1 << len(columns["row"])) - 1)


def _digits(numbers: list[int], places: int) -> tuple[Any, ...]:
    """Returns the numbers of a list as binary digits over slots."""
    return tuple(
        np.uint32(sum((number >> place & 1) << slot for slot, number in enumerate(numbers)))
        for place in range(places)
    )


def _write_entries(entries: Enemies | Transmissions, fields: list[str]) -> list[list[int]]:
    columns = [getattr(entries, "kind" if name == "type" else name) for name in fields]
    digits = [[int(digit) for digit in jax.tree.leaves(column)] for column in columns]
    return [
        [sum((digit >> slot & 1) << place for place, digit in enumerate(each)) for each in digits]
        for slot in range(int(entries.present).bit_count())
    ]


def _read_history(snapshots: list[Any], depth: int, places: int) -> History:
    """Returns a history of `depth` snapshots: the newest of those given, on top of unknown ones if
    there are fewer.
    """
    unknown = depth - len(snapshots)
    words = np.zeros((places, history.WORDS), np.uint32)
    for number in range(max(0, -unknown), len(snapshots)):
        fields = _read_snapshot(snapshots[number], f"history[{number}].")
        words[unknown + number] = _packed(_only(fields))
    newest: Any = (words, np.int32(depth % places), np.int32(depth))
    return History(*newest)


def _known_snapshots(held: History) -> list[State]:
    """Returns the snapshots as states, oldest first, without unknown ones (all words are 0)."""
    words, depth, head = np.asarray(held.snapshots), int(held.depth), int(held.head)
    oldest_first = [(head - depth + age) % len(words) for age in range(depth)]
    known = [place for place in oldest_first if words[place].any()]
    if not known:
        return []
    unpacked = jax.tree.map(np.asarray, history.unpack(words.T, _only({})))
    return [jax.tree.map(operator.itemgetter(place), unpacked) for place in known]


def _only(fields: Mapping[str, Any]) -> State:
    """Returns a state with these fields; all others are None."""
    return State(**{**dict.fromkeys(State.__dataclass_fields__), **fields})


@jax.jit
def _packed(state: State) -> Array:
    """Returns the snapshot of a state, u32[words]."""
    return jnp.stack(history.pack(state))
