"""Ordered lists of enemies and transmissions as bit sets over 32 slots.

A slot set is one word: bit i stands for list entry i. Every field of a list is stored as such
words, its binary digits (`digits`), so that one logic operation treats all entries of a list at
once. Between actions a list fills the slots from 0 up without holes; list order is slot order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import cells, digits
from hackmatrix.game.cells import SIZE, CellSet, column_of, row_of
from hackmatrix.game.digits import Digits, equals
from hackmatrix.game.outline import outlined
from hackmatrix.game.tracing import popcount

CAPACITY = 32

Array = jax.Array
ONE = np.uint32(1)
ALL: Any = np.uint32(0xFFFFFFFF)
_DISTANCES = (1, 2, 4, 8, 16)


class Placed(Protocol):
    """What enemies and transmissions have in common."""

    @property
    def present(self) -> Array: ...
    @property
    def row(self) -> Digits[Array]: ...
    @property
    def column(self) -> Digits[Array]: ...


class Places(NamedTuple):
    """The positions of a list's entries, without its other fields."""

    present: Array
    row: Digits[Array]
    column: Digits[Array]


ListT = TypeVar("ListT")


def count(slots: Array) -> Array:
    return popcount(slots).astype(jnp.int32)


def first(slots: Array) -> Array:
    """Returns the lowest slot of the set, as a set."""
    return slots & (~slots + ONE)


def nth(word: Array, n: Array) -> Array:
    """Returns the index of the n-th set bit of a word, counting from 0; n must be in range."""
    index = jnp.zeros_like(word)
    rest = n.astype(jnp.uint32)
    for width in (16, 8, 4, 2, 1):
        lower = word & np.uint32((1 << width) - 1)
        lower_ones = popcount(lower)
        above = rest >= lower_ones
        rest = jnp.where(above, rest - lower_ones, rest)
        index = jnp.where(above, index + np.uint32(width), index)
        word = jnp.where(above, word >> np.uint32(width), lower)
    return index


def below(number: Array) -> Array:
    """Returns the set of the first `number` slots (0 to 32)."""
    shift = jnp.minimum(number, CAPACITY - 1).astype(jnp.uint32)
    return jnp.where(number >= CAPACITY, ALL, (ONE << shift) - ONE)


def at_cell(entries: Placed, cell: Array) -> Array:
    """Returns the slots of the entries in this cell."""
    row = row_of(cell)
    return entries.present & equals(entries.row, row) & equals(entries.column, cell - SIZE * row)


def beside(entries: Placed, cell: Array) -> Array:
    """Returns the slots, present or not, at the row and column of a cell beside the cell."""
    row, column = row_of(cell), column_of(cell)
    in_next_row, in_next_column = _one_off(entries.row, row), _one_off(entries.column, column)
    return (in_next_row & equals(entries.column, column)) | (
        equals(entries.row, row) & in_next_column
    )


def diagonal(entries: Placed, cell: Array) -> Array:
    """Returns the slots, present or not, whose row and column are both next to the cell's."""
    return _one_off(entries.row, row_of(cell)) & _one_off(entries.column, column_of(cell))


def _one_off(lines: Digits[Array], line: Array) -> Array:
    return equals(lines, line + 1) | equals(lines, line - 1)


def around(entries: Placed, cell: Array) -> Iterator[Array]:
    """Yields, for each of the 8 cells around the cell, the slots of the entries in it."""
    row, column = row_of(cell), column_of(cell)
    rows = [entries.present & equals(entries.row, row + up) for up in (-1, 0, 1)]
    columns = [equals(entries.column, column + right) for right in (-1, 0, 1)]
    for number, (in_row, in_column) in enumerate(product(rows, columns)):
        if number != 4:
            yield in_row & in_column


def cell_of(entries: Placed, slot: Array) -> Array:
    return SIZE * digits.read(entries.row, slot) + digits.read(entries.column, slot)


def by_cell(entries: Placed) -> Iterator[tuple[int, Array]]:
    """Yields each cell with the slots of the entries in it."""
    columns = [equals(entries.column, column) for column in range(SIZE)]
    for row in range(SIZE):
        in_row = entries.present & equals(entries.row, row)
        for column in range(SIZE):
            yield SIZE * row + column, in_row & columns[column]


def cells_of(entries: Placed, slots: Array | None = None) -> CellSet:
    """Returns the cells that hold entries, or entries of these slots."""
    wanted = entries.present if slots is None else entries.present & slots
    return _cells_of(Places(wanted, entries.row, entries.column))


@outlined
def _cells_of(entries: Places) -> CellSet:
    halves = [jnp.uint32(0), jnp.uint32(0)]
    for cell, here in by_cell(entries):
        half, place = divmod(cell, cells.HALF)
        halves[half] = halves[half] | jnp.where(here != 0, ONE << np.uint32(place), 0)
    return CellSet(*halves)


def in_cells(entries: Placed, wanted: CellSet) -> Array:
    """Returns the slots of the entries in these cells."""
    return _in_cells(Places(entries.present, entries.row, entries.column), wanted)


@outlined
def _in_cells(entries: Places, wanted: CellSet) -> Array:
    found = jnp.uint32(0)
    for cell, here in by_cell(entries):
        half, place = divmod(cell, cells.HALF)
        word = wanted.high if half else wanted.low
        found = found | jnp.where((word >> np.uint32(place)) & 1 != 0, here, 0)
    return found


def firsts(entries: Placed) -> Array:
    """Returns the slots of the entries that are the first in their cell."""
    return _firsts(Places(entries.present, entries.row, entries.column))


@outlined
def _firsts(entries: Places) -> Array:
    found = jnp.uint32(0)
    for _, here in by_cell(entries):
        found = found | first(here)
    return found


def squeeze(entries: ListT, keep: Array) -> ListT:
    """Drops all entries but those to keep, and moves these down in order to fill the holes.

    In five rounds bits move by 1, 2, 4, 8 and 16 places; in all, each moves by the number of holes
    below it.
    """
    moves = _moves(keep)

    def compress(word: Array) -> Array:
        word = word & keep
        for moving, distance in zip(moves, _DISTANCES, strict=True):
            leaving = word & moving
            word = (word ^ leaving) | (leaving >> np.uint32(distance))
        return word

    return jax.tree.map(compress, entries)


@outlined
def _moves(keep: Array) -> list[Array]:
    """Returns the bits that each round of `squeeze` moves."""
    moves = []
    kept, holes = keep, ~keep << ONE
    for distance in _DISTANCES:
        parity = holes
        for width in _DISTANCES:
            parity = parity ^ (parity << np.uint32(width))
        moving = parity & kept
        moves.append(moving)
        kept = (kept ^ moving) | (moving >> np.uint32(distance))
        holes = holes & ~parity
    return moves


def raise_by(entries: ListT, number: Array) -> ListT:
    """Moves all entries up by this many slots; those past the last slot are dropped."""
    shift = jnp.minimum(number, CAPACITY - 1).astype(jnp.uint32)
    return jax.tree.map(lambda word: jnp.where(number < CAPACITY, word << shift, 0), entries)
