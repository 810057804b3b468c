"""Sets of board cells as bit sets: one bit per cell, 18 cells per word, any batch shape.

Cell number = 6 * row + column. Numbers in cells are stored as binary digits (`digits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix.game.tracing import popcount

SIZE = 6
CELLS = SIZE * SIZE
HALF = CELLS // 2
FULL = np.uint32((1 << HALF) - 1)
FIRST_COLUMN = np.uint32(sum(1 << (SIZE * row) for row in range(3)))
LAST_COLUMN = np.uint32(FIRST_COLUMN << 5)

# No shortest path has more steps: the longest chordless path of a 6x6 grid has 24 cells.
LONGEST_PATH = 23

Array = jax.Array


def row_of(cell: Any) -> Any:
    """Returns the row of a cell number, without division: kernels have no instruction for it."""
    return (cell * 43) >> 8


def column_of(cell: Any) -> Any:
    return cell - SIZE * row_of(cell)


def on_board(row: Array, column: Array) -> Array:
    return (row >= 0) & (row < SIZE) & (column >= 0) & (column < SIZE)


class CellSet(struct.PyTreeNode):
    """A set of cells: rows 0 to 2 in `low`, rows 3 to 5 in `high`."""

    low: Array
    high: Array

    def __or__(self, other: CellSet) -> CellSet:
        return CellSet(self.low | other.low, self.high | other.high)

    def __and__(self, other: CellSet) -> CellSet:
        return CellSet(self.low & other.low, self.high & other.high)

    def __xor__(self, other: CellSet) -> CellSet:
        return CellSet(self.low ^ other.low, self.high ^ other.high)

    def __sub__(self, other: CellSet) -> CellSet:
        return CellSet(self.low & ~other.low, self.high & ~other.high)

    def __invert__(self) -> CellSet:
        return CellSet(self.low ^ FULL, self.high ^ FULL)

    def any(self) -> Array:
        return (self.low | self.high) != 0

    def count(self) -> Array:
        return (popcount(self.low) + popcount(self.high)).astype(jnp.int32)

    def has(self, cell: Array) -> Array:
        """Whether the cell with this number is in the set."""
        in_low = cell < HALF
        word = jnp.where(in_low, self.low, self.high)
        return ((word >> jnp.where(in_low, cell, cell - HALF).astype(jnp.uint32)) & 1) != 0

    def only_if(self, condition: Array) -> CellSet:
        """The set where the condition holds, else the empty set."""
        return CellSet(jnp.where(condition, self.low, 0), jnp.where(condition, self.high, 0))


def constant(cells: Iterable[int]) -> CellSet:
    bits = sum(1 << cell for cell in set(cells))
    halves: Any = (np.uint32(bits & int(FULL)), np.uint32(bits >> HALF))
    return CellSet(*halves)


EMPTY = constant(())
EVERY = constant(range(CELLS))
CORNERS = constant((0, 5, 30, 35))


def at(cell: Array) -> CellSet:
    """Returns the set that holds only this cell."""
    in_low = cell < HALF
    bit = np.uint32(1) << jnp.where(in_low, cell, cell - HALF).astype(jnp.uint32)
    return CellSet(jnp.where(in_low, bit, 0), jnp.where(in_low, 0, bit))


def of_flags(flags: Array) -> CellSet:
    """Returns the set of the cells whose flag is true, from bool[..., 36]."""
    bits = jnp.where(flags, np.uint32(1) << (np.arange(CELLS, dtype=np.uint32) % HALF), 0)
    return CellSet(
        bits[..., :HALF].sum(-1, dtype=jnp.uint32), bits[..., HALF:].sum(-1, dtype=jnp.uint32)
    )


def where(condition: Array, chosen: CellSet, other: CellSet) -> CellSet:
    return CellSet(
        jnp.where(condition, chosen.low, other.low), jnp.where(condition, chosen.high, other.high)
    )


def up(cells: CellSet) -> CellSet:
    return CellSet((cells.low << 6) & FULL, (cells.high << 6 | cells.low >> 12) & FULL)


def down(cells: CellSet) -> CellSet:
    return CellSet(cells.low >> 6 | (cells.high << 12) & FULL, cells.high >> 6)


def left(cells: CellSet) -> CellSet:
    return CellSet((cells.low & ~FIRST_COLUMN) >> 1, (cells.high & ~FIRST_COLUMN) >> 1)


def right(cells: CellSet) -> CellSet:
    return CellSet((cells.low & ~LAST_COLUMN) << 1, (cells.high & ~LAST_COLUMN) << 1)


# The order of directions wherever it matters.
DIRECTIONS: tuple[Callable[[CellSet], CellSet], ...] = (up, down, left, right)


def neighbours(cells: CellSet) -> CellSet:
    return up(cells) | down(cells) | left(cells) | right(cells)


def cross(cells: CellSet) -> CellSet:
    return cells | neighbours(cells)


def around(cells: CellSet) -> CellSet:
    """The 8 cells around a cell."""
    sideways = left(cells) | right(cells)
    column = cells | sideways
    return up(column) | down(column) | sideways


def spread(reached: CellSet, free: CellSet) -> CellSet:
    """One wave of a flood fill through the free cells."""
    return reached | (neighbours(reached) & free)
