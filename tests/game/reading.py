"""Reads many boards at once into the form of `scenario.dump`, which takes one board at a time.

It repeats the game's knowledge of its arrays, so its users compare some boards with `dump`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import jax
import numpy as np
from boards import SNAPSHOT
from golden import State

from hackmatrix.game import history

Tree = Any  # states of several boards: arrays whose first axis is the boards

SIZE = 6
SLOTS = 32
HALF = SIZE * SIZE // 2  # cells in each word of a set of cells
KINDS = ((".", "S", "X"), ("D", "P"), ("QD", "QP"))
PLAYER = ("hp", "credits", "energy", "data_siphons", "attack", "score")
SINGLE = (
    *("stage", "turn", "show", "calm", "step", "atk_uses", "pending", "interval", "next_task"),
)
SOURCES = ("from_siphon", "from_schedule")
ENEMY = ("kind", "row", "column", "hp", "disabled", "stunned", *SOURCES)
TRANSMISSION = ("row", "column", "turns", "kind", *SOURCES)


class Reading:
    """The boards of a batch as dictionaries."""

    def __init__(self, states: Tree) -> None:
        self._states = states
        player, numbers = states.player, [getattr(states, name) for name in SINGLE]
        placed = [*np.divmod(player.cell, SIZE), *(getattr(player, name) for name in PLAYER)]
        self._single = np.stack([*numbers, states.history.depth], axis=1)
        self._player = np.stack(placed, axis=1)
        self._exit = np.stack(np.divmod(states.exit_cell, SIZE), axis=1)
        self._owned = _bits(states.owned, SLOTS)
        self._enemies = _Lists(states.enemies, ENEMY)
        self._transmissions = _Lists(states.transmissions, TRANSMISSION)

    def with_history(self, index: int) -> State:
        return {**self.board(index), "history": self._snapshots_of(index)}

    def board(self, index: int) -> State:
        """A board without the contents of its history."""
        return {**self.without_cells(index), "cells": self._cells_of(index)}

    def without_cells(self, index: int) -> State:
        return {
            **dict(zip((*SINGLE, "history_depth"), self._single[index].tolist(), strict=True)),
            "player": self._player[index].tolist(),
            "exit": self._exit[index].tolist(),
            "owned": np.flatnonzero(self._owned[index]).tolist(),
            "enemies": self._enemies.of(index),
            "transmissions": self._transmissions.of(index),
        }

    @cached_property
    def _cells(self) -> np.ndarray:
        """[boards, cells, (group in KINDS, kind in the group, label, spawn, c, e, s, m)]"""
        board = self._states.board
        data, program, hidden = (
            _in_cells(each) for each in (board.data, board.program, board.question)
        )
        is_block = data | program
        content = _in_cells(board.data_siphon) + 2 * _in_cells(board.exit)
        label, spawn, amount = (
            _number([_in_cells(digit) for digit in digits])
            for digits in (board.label, board.spawn, board.amount)
        )
        energy = amount * _in_cells(board.energy)
        return np.stack(
            [
                is_block + (is_block & hidden),
                np.where(is_block, program, content),
                *(label, spawn, amount - energy, energy),
                _in_cells(board.siphoned),
                _in_cells(board.centre),
            ],
            axis=2,
        )

    @cached_property
    def _snapshots(self) -> Reading:
        """The boards in all places of all histories."""
        unpacked = _unpacked(self._states)
        return Reading(
            jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[2:]), unpacked)
        )

    def _snapshots_of(self, index: int) -> list[State]:
        """The known snapshots of a board, oldest first."""
        held = self._states.history
        is_known = held.snapshots[index].any(-1)
        places = (held.head[index] + np.arange(-held.depth[index], 0)) % len(is_known)
        numbers = len(is_known) * index + places[is_known[places]]
        boards = [self._snapshots.board(number) for number in numbers.tolist()]
        return [{name: board[name] for name in SNAPSHOT} for board in boards]

    def _cells_of(self, index: int) -> list[list[Any]]:
        cells = []
        for group, kind, label, spawn, c, e, s, m in self._cells[index].tolist():
            block = [label, spawn] if group else []
            cells.append([KINDS[group][kind], *block, {"c": c, "e": e, "s": s, "m": m}])
        return cells


@jax.jit
@jax.vmap
def _unpacked(state: Tree) -> Tree:
    """The snapshot in each place of a board's history, as a state."""

    def board(words: jax.Array) -> Tree:
        return history.unpack(words, state).replace(history=history.empty(1, state.turn))

    return jax.vmap(board)(state.history.snapshots)


class _Lists:
    """The enemies or transmissions of all boards, with the given fields."""

    def __init__(self, lists: Tree, fields: tuple[str, ...]) -> None:
        columns = []
        for name in fields:
            digits = getattr(lists, name)
            digits = digits if isinstance(digits, tuple) else (digits,)
            columns.append(_number([_bits(digit, SLOTS) for digit in digits]))
        self._entries = np.stack(columns, axis=2)
        self._lengths = _bits(lists.present, SLOTS).sum(1)

    def of(self, index: int) -> list[list[int]]:
        return self._entries[index, : self._lengths[index]].tolist()


def _in_cells(members: Tree) -> np.ndarray:
    """1 for each cell that is in the set, [boards, cells]."""
    return np.concatenate([_bits(members.low, HALF), _bits(members.high, HALF)], axis=1)


def _number(digits: list[np.ndarray]) -> np.ndarray:
    return np.sum([digit << place for place, digit in enumerate(digits)], axis=0)


def _bits(words: np.ndarray, number: int) -> np.ndarray:
    """The lowest bits of each word, least significant first, [boards, number]."""
    return (words[:, None] >> np.arange(number, dtype=np.uint32) & 1).astype(int)
