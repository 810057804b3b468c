"""Turned boards: a board and its mirror image are one board to a network.

Before the network sees it, a board is turned over until what it is turned towards, its landmark,
lies above the player and to its right, and farther up than to the right. What is learned of one way
then is known of all eight. The logits of the directions are turned back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hackmatrix.networks.board import COLUMN, ROW, player_place

Array = Any  # of JAX or of NumPy; xp is the namespace of its functions
Parts = Mapping[str, Array]
DIRECTIONS = "up", "down", "left", "right"
_TOLD = "turned"  # the part that tells how the board was turned


class Turn(NamedTuple):
    """What was done to boards, in this order: bool[...] each."""

    upside_down: Array
    mirrored: Array
    transposed: Array


@dataclass(frozen=True)
class Turning:
    """`landmark` is the feature of cells that is turned towards; `directions` are the actions that
    lead up, down, left and right.
    """

    landmark: int
    directions: tuple[int, int, int, int]

    @classmethod
    def of(cls, landmark: int | None, actions: Sequence[str]) -> Turning | None:
        """None where boards have no landmark or actions no directions."""
        if landmark is None or not set(DIRECTIONS) <= set(actions):
            return None
        up, down, left, right = map(actions.index, DIRECTIONS)
        return cls(landmark, (up, down, left, right))

    @staticmethod
    def shapes(observation: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The shapes of the parts of an observation on turned boards."""
        return {**observation, _TOLD: (len(Turn._fields),)}

    def turned(self, parts: Parts) -> tuple[dict[str, Array], Turn]:
        """The boards as the network sees them, and how they were turned, which a part tells it:
        rules that depend on the order of directions are not the same for both.
        """
        cells, player = parts["cells"], parts["player"]
        xp = cells.__array_namespace__()
        turn = self._turn(xp, parts)
        cells = _taken(xp, cells, _places(xp, turn, *cells.shape[-3:-1]))
        row, column = player[..., ROW], player[..., COLUMN]
        row = xp.where(turn.upside_down, 1 - row, row)
        column = xp.where(turn.mirrored, 1 - column, column)
        row, column = _either(xp, turn.transposed, row, column)
        place = xp.stack([row, column], axis=-1)
        player = xp.concatenate([place, player[..., 2:]], axis=-1)
        told = xp.stack(turn, axis=-1).astype(player.dtype)
        return {**parts, "player": player, "cells": cells, _TOLD: told}, turn

    def turned_back(self, logits: Array, turn: Turn) -> Array:
        """Logits [..., A] of the actions on the boards as they were before."""
        xp = logits.__array_namespace__()
        up, down, left, right = (logits[..., action] for action in self.directions)
        up, right = _either(xp, turn.transposed, up, right)
        down, left = _either(xp, turn.transposed, down, left)
        left, right = _either(xp, turn.mirrored, left, right)
        up, down = _either(xp, turn.upside_down, up, down)
        action = xp.arange(logits.shape[-1])
        for direction, logit in zip(self.directions, (up, down, left, right), strict=True):
            logits = xp.where(action == direction, logit[..., None], logits)
        return logits

    def _turn(self, xp: Any, parts: Parts) -> Turn:
        """How to turn boards; as if the landmark lay in the first cell where none is seen."""
        row, column = player_place(parts)
        marks = parts["cells"][..., self.landmark]
        up = xp.argmax(marks.max(-1), axis=-1) - row
        right = xp.argmax(marks.max(-2), axis=-1) - column
        return Turn(up < 0, right < 0, (abs(right) > abs(up)) & _is_square(parts["cells"]))


def _is_square(cells: Array) -> bool:
    rows, columns = cells.shape[-3:-1]
    return bool(rows == columns)


def _places(xp: Any, turn: Turn, rows: int, columns: int) -> Array:
    """i32[..., R * C]: where each cell of the turned board lay, cells counted row by row."""
    cell = xp.arange(rows * columns, dtype="int32")
    upside_down, mirrored, transposed = (each[..., None] for each in turn)
    row, column = _either(xp, transposed, cell // columns, cell % columns)
    row = xp.where(upside_down, rows - 1 - row, row)
    column = xp.where(mirrored, columns - 1 - column, column)
    return row * columns + column


def _taken(xp: Any, cells: Array, places: Array) -> Array:
    """Boards [..., R, C, F] whose cells are those of these places."""
    *boards, height, width, numbers = cells.shape
    rows = cells.reshape(*boards, height * width, numbers)
    unchecked = {} if xp.__name__ == "numpy" else {"mode": "promise_in_bounds"}
    return xp.take_along_axis(rows, places[..., None], axis=-2, **unchecked).reshape(cells.shape)


def _either(xp: Any, swapped: Array, one: Array, other: Array) -> tuple[Array, Array]:
    return xp.where(swapped, other, one), xp.where(swapped, one, other)
