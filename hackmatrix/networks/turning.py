"""Turned boards: a canonical orientation, in which a board and its mirror images look the same.

Before the network sees a board, it is flipped and, if square, transposed such that its landmark is
neither below nor left of the player, and at least as far up as to the right. What the network
learns about one orientation then holds for all eight. The logits of the directions are turned back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from hackmatrix.networks.board import COLUMN, ROW, player_place

Array = Any  # of JAX or NumPy; `xp` below is its array namespace
Parts = Mapping[str, Array]
DIRECTIONS = "up", "down", "left", "right"
_TURNED = "turned"  # the name of the part that tells the network how the board was turned


class Turn(NamedTuple):
    """How boards were turned, in the order in which it was done; bool[...] each."""

    upside_down: Array
    mirrored: Array
    transposed: Array


@dataclass(frozen=True)
class Turning:
    """Turns boards towards a landmark. `landmark` is the index of the feature of `cells` that marks
    it; `directions` are the actions that lead up, down, left and right.
    """

    landmark: int
    directions: tuple[int, int, int, int]

    @classmethod
    def of(cls, landmark: int | None, actions: Sequence[str]) -> Turning | None:
        """Returns the turning for boards with this landmark and these actions, or None if there is
        no landmark or the actions lack a direction.
        """
        if landmark is None or not set(DIRECTIONS) <= set(actions):
            return None
        up, down, left, right = map(actions.index, DIRECTIONS)
        return cls(landmark, (up, down, left, right))

    @staticmethod
    def shapes(observation: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the parts of turned boards: the observation's, and `turned`."""
        return {**observation, _TURNED: (len(Turn._fields),)}

    def turned(self, parts: Parts) -> tuple[dict[str, Array], Turn]:
        """Returns the boards as the network sees them, and how they were turned. Boards that the
        environment has turned already (`Environment.turned_by`) stay as they are.
        """
        if _TURNED in parts:
            return dict(parts), Turn(*(parts[_TURNED][..., each] != 0 for each in range(3)))
        return turned_towards(parts["cells"][..., self.landmark], parts)

    def turned_back(self, logits: Array, turn: Turn) -> Array:
        """Maps logits [..., A] for turned boards to those for the original boards."""
        xp = logits.__array_namespace__()
        up, down, left, right = (logits[..., action] for action in self.directions)
        up, right = _swapped_where(xp, turn.transposed, up, right)
        down, left = _swapped_where(xp, turn.transposed, down, left)
        left, right = _swapped_where(xp, turn.mirrored, left, right)
        up, down = _swapped_where(xp, turn.upside_down, up, down)
        action = xp.arange(logits.shape[-1])
        for direction, logit in zip(self.directions, (up, down, left, right), strict=True):
            logits = xp.where(action == direction, logit[..., None], logits)
        return logits


def turned_towards(marks: Array, parts: Parts) -> tuple[dict[str, Array], Turn]:
    """Turns boards towards their landmark, where `marks` [..., R, C] is greatest. The part `cells`
    [..., R, C, F] need not be decoded yet. How they were turned becomes the part `turned`: rules
    that depend on the order of directions are not symmetric, so the network should know.
    """
    cells, player = parts["cells"], parts["player"]
    xp = cells.__array_namespace__()
    turn = _turn(xp, marks, parts)
    cells = _turned(xp, cells, turn)
    row, column = player[..., ROW], player[..., COLUMN]
    row = xp.where(turn.upside_down, 1 - row, row)
    column = xp.where(turn.mirrored, 1 - column, column)
    row, column = _swapped_where(xp, turn.transposed, row, column)
    place = xp.stack([row, column], axis=-1)
    player = xp.concatenate([place, player[..., 2:]], axis=-1)
    flags = xp.stack(turn, axis=-1).astype(player.dtype)
    return {**parts, "player": player, "cells": cells, _TURNED: flags}, turn


def _turn(xp: Any, marks: Array, parts: Parts) -> Turn:
    """Returns how to turn boards. A board without a landmark is taken to have it in row 0 and
    column 0.
    """
    row, column = player_place(parts)
    up = xp.argmax(marks.max(-1), axis=-1) - row
    right = xp.argmax(marks.max(-2), axis=-1) - column
    return Turn(up < 0, right < 0, (abs(right) > abs(up)) & _is_square(parts["cells"]))


def _is_square(cells: Array) -> bool:
    rows, columns = cells.shape[-3:-1]
    return bool(rows == columns)


def _turned(xp: Any, cells: Array, turn: Turn) -> Array:
    """Returns the cells [..., R, C, F] of the turned boards."""
    if xp.__name__ == "numpy":
        return _by_selects(xp, cells, *turn)
    import jax

    # Gathers are slow on a TPU (docs/benchmarks.md); elsewhere one reads each number once.
    return jax.lax.platform_dependent(
        cells, *turn, tpu=partial(_by_selects, xp), default=partial(_by_gather, xp)
    )


def _by_selects(xp: Any, cells: Array, *turn: Array) -> Array:
    upside_down, mirrored, transposed = (each[..., None, None, None] for each in turn)
    cells = xp.where(upside_down, xp.flip(cells, -3), cells)
    cells = xp.where(mirrored, xp.flip(cells, -2), cells)
    return xp.where(transposed, cells.swapaxes(-3, -2), cells) if _is_square(cells) else cells


def _by_gather(xp: Any, cells: Array, *turn: Array) -> Array:
    *boards, rows, columns, features = cells.shape
    upside_down, mirrored, transposed = (each[..., None] for each in turn)
    cell = xp.arange(rows * columns, dtype="int32")
    row, column = _swapped_where(xp, transposed, cell // columns, cell % columns)
    row = xp.where(upside_down, rows - 1 - row, row)
    column = xp.where(mirrored, columns - 1 - column, column)
    source = (row * columns + column)[..., None]
    listed = cells.reshape(*boards, rows * columns, features)
    turned = xp.take_along_axis(listed, source, axis=-2, mode="promise_in_bounds")
    return turned.reshape(cells.shape)


def _swapped_where(xp: Any, swapped: Array, one: Array, other: Array) -> tuple[Array, Array]:
    return xp.where(swapped, other, one), xp.where(swapped, one, other)
