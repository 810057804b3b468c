"""Where a stage's blocks stand and what they hold (section 9, point 3).

Blocks never stand in corners, so a layout is one word: one bit for each of the 32 other cells.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix.game import bits, cells, few, several, slots
from hackmatrix.game.bits import WORD
from hackmatrix.game.cells import EVERY, LONGEST_PATH, CellSet
from hackmatrix.game.fields import Fields
from hackmatrix.game.outline import outlined
from hackmatrix.game.programs import Program
from hackmatrix.game.randomness import (
    Key,
    Purpose,
    pick_slot,
    uniform_below,
    with_each_drawn,
    word,
    words,
)
from hackmatrix.game.state import Board
from hackmatrix.game.tracing import in_kernel

Array = jax.Array

FEWEST, MOST = 5, 11
DRAWS = 100
PAIRS = (MOST + 1) // 2  # pairs of random words, one word per block
_AT_ONCE = 4
_BLOCK = Fields(program=1, question=1, label=bits.LABEL, spawn=bits.SPAWN)
_USED = sum(field.bits for field in _BLOCK.values())
_LABELS_A_WORD = WORD // bits.LABEL
SPAWNS = np.array([program.spawn for program in Program], np.int32)


class Search(struct.PyTreeNode):
    """The search for an accepted layout."""

    key: Key
    room: Array
    exit: CellSet
    number: Array
    layout: Array
    draws: Array
    found: Array


def to_cells(layout: Array) -> CellSet:
    low = (layout & np.uint32(0xF)) << 1 | (layout & np.uint32(0xFFF0)) << 2
    high = layout >> 16 & np.uint32(0xFFF) | layout >> 28 << 13
    return CellSet(low, high)


def from_cells(chosen: CellSet) -> Array:
    low = chosen.low >> 1 & np.uint32(0xF) | chosen.low >> 2 & np.uint32(0xFFF0)
    high = (chosen.high & np.uint32(0xFFF)) << 16 | (chosen.high >> 13 & np.uint32(0xF)) << 28
    return low | high


def draw(key: Key, exit_: CellSet, room: CellSet) -> Array:
    """Returns a layout of 5 to 11 blocks: the first accepted one of 100 draws, or no blocks."""
    number = FEWEST + uniform_below(word(key, Purpose.BLOCK_COUNT), MOST - FEWEST + 1)
    zero = jnp.zeros_like(number)
    search = Search(
        key=key,
        room=from_cells(room),
        exit=exit_,
        number=number,
        layout=jnp.zeros_like(key.low),
        draws=zero,
        found=zero != 0,
    )
    return few.repeat(_is_searching, _draw_some, search, few.LAYOUTS, reselect=True).layout


def _is_searching(search: Search) -> Array:
    return ~search.found & (search.draws < DRAWS)


def _draw_some(search: Search) -> Search:
    """Draws several layouts at once (one in a kernel); the first accepted one counts."""

    def attempt(number: several.Number) -> tuple[Array, Array]:
        index = search.draws + number
        layout = _random_cells(search.key, index, search.room, search.number)
        return layout, is_accepted(to_cells(layout), search.exit) & (index < DRAWS)

    layout, found = search.layout, search.found
    at_once = 1 if in_kernel() else _AT_ONCE
    for drawn_layout, accepted in several.each(at_once, attempt, search.draws):
        layout = jnp.where(accepted & ~found, drawn_layout, layout)
        found = found | accepted
    return search.replace(layout=layout, found=found, draws=search.draws + at_once)


def _random_cells(key: Key, attempt: Array, room: Array, number: Array) -> Array:
    """Returns `number` different cells of the room, drawn uniformly."""

    def add(pair: several.Number, randoms: tuple[Array, Array], layout: Array) -> Array:
        for which, random in enumerate(randoms):
            block = pick_slot(random, room & ~layout)
            layout = layout | jnp.where(2 * pair + which < number, block, 0)
        return layout

    nothing = jnp.zeros_like(attempt, jnp.uint32)
    return with_each_drawn(add, nothing, key, Purpose.BLOCK_CELLS, PAIRS, start=8 * attempt)


def is_accepted(blocks: CellSet, exit_: CellSet) -> Array:
    """Returns whether all other cells are connected without passing through the exit (an exit in
    cell 0, where the search starts, may be passed), and every block has one of them beside it.
    """
    open_cells = EVERY - blocks
    start = cells.constant([0])
    passable = (open_cells - exit_) | start
    reached = several.repeated(
        LONGEST_PATH,
        lambda reached: reached | (cells.neighbours(reached & passable) & open_cells),
        start | (open_cells & cells.EMPTY),
    )
    enclosed = blocks - cells.neighbours(open_cells)
    return ~(open_cells - reached).any() & ~enclosed.any()


@outlined
def fill(key: Key, layout: Array) -> Board:
    """Returns a board with these blocks and their contents, and nothing else."""
    programs = _different_programs(key)

    def block(number: several.Number) -> list[Array]:
        """Returns, for each bit of _BLOCK, this block if its content sets the bit, else none."""
        here, content = _nth_block(layout, number), _content(key, programs, number)
        return [jnp.where(content >> np.uint32(bit) & 1 != 0, here, 0) for bit in range(_USED)]

    found = several.union(MOST, block, layout)
    program, question, *numbers = map(to_cells, found)
    nowhere = CellSet(jnp.zeros_like(layout), jnp.zeros_like(layout))
    return Board(
        data=to_cells(layout) - program,
        program=program,
        question=question,
        data_siphon=nowhere,
        exit=nowhere,
        siphoned=nowhere,
        centre=nowhere,
        label=tuple(numbers[: bits.LABEL]),
        spawn=tuple(numbers[bits.LABEL :]),
        amount=(nowhere,) * bits.AMOUNT,
        energy=nowhere,
    )


@outlined
def _nth_block(layout: Array, number: several.Number) -> Array:
    """Returns the block of this number, as a layout; an empty one if there are fewer blocks."""
    is_there = number < slots.count(layout)
    return jnp.where(is_there, slots.ONE << slots.nth(layout, number), 0)


@outlined
def _content(key: Key, programs: tuple[Array, Array], number: several.Number) -> Array:
    """Returns what the block of this number holds, as the fields of _BLOCK."""
    kind, points = words(key, Purpose.BLOCK_CONTENT, number)
    kind, points = uniform_below(kind, 20), 1 + uniform_below(points, 9)
    is_program, is_hidden = kind < 10, (kind == 0) | (kind == 10)
    program = _nth_program(programs, number)
    label = jnp.where(is_program, program, points)
    spawn = jnp.where(is_program, several.look_up(SPAWNS, program), points)
    return _BLOCK.pack(program=is_program, question=is_hidden, label=label, spawn=spawn)


def _nth_program(programs: tuple[Array, Array], number: several.Number) -> Array:
    """Returns the program of this number among those drawn."""
    is_low, shift = _place(number)
    packed = jnp.where(is_low, *programs) >> shift
    return (packed & np.uint32(bits.greatest(bits.LABEL))).astype(jnp.int32)


def _place(number: several.Number) -> tuple[Any, Array]:
    """Returns where the label of this number is in two words of labels: whether it is in the low
    one, and by how many bits it is shifted.
    """
    is_low = number < _LABELS_A_WORD
    place = jnp.where(is_low, number, number - _LABELS_A_WORD)
    return is_low, (bits.LABEL * place).astype(jnp.uint32)


@outlined
def _different_programs(key: Key) -> tuple[Array, Array]:
    """Draws different programs, each uniformly from those left, as numbers packed in two words."""
    assert PAIRS <= _LABELS_A_WORD

    def add(
        pair: several.Number, randoms: tuple[Array, Array], drawn: tuple[Array, Array, Array]
    ) -> tuple[Array, Array, Array]:
        unused, low, high = drawn
        for which, random in enumerate(randoms):
            is_low, shift = _place(2 * pair + which)
            program = slots.nth(unused, uniform_below(random, slots.count(unused)))
            unused = unused & ~(slots.ONE << program)
            label = program << shift
            low, high = low | jnp.where(is_low, label, 0), high | jnp.where(is_low, 0, label)
        return unused, low, high

    none = jnp.zeros_like(key.low)
    drawn = none + np.uint32((1 << len(Program)) - 1), none, none
    return with_each_drawn(add, drawn, key, Purpose.BLOCK_PROGRAMS, PAIRS)[1:]
