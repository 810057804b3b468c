"""Where a stage's blocks stand and what they hold (section 9, point 3).

Blocks never stand in corners, so a layout is one word: one bit for each of the 32 other cells.
"""

from __future__ import annotations

from itertools import chain

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix.game import bits, cells, few, slots
from hackmatrix.game.bits import WORD
from hackmatrix.game.cells import EVERY, LONGEST_PATH, CellSet
from hackmatrix.game.fields import Fields
from hackmatrix.game.outline import outlined
from hackmatrix.game.programs import Program
from hackmatrix.game.randomness import Key, Purpose, pick_slot, several, uniform_below, word, words
from hackmatrix.game.state import Board

Array = jax.Array

FEWEST, MOST = 5, 11
DRAWS = 100
_AT_ONCE = 8
_BLOCK = Fields(program=1, question=1, label=bits.LABEL, spawn=bits.SPAWN)
_LABELS_A_WORD = WORD // bits.LABEL


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
    """A layout of 5 to 11 blocks: the first accepted one of 100 draws, or no blocks."""
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
    return few.repeat(_is_searching, _draw_some, search, few.EVERY_BOARD).layout


def _is_searching(search: Search) -> Array:
    return ~search.found & (search.draws < DRAWS)


def _draw_some(search: Search) -> Search:
    """Several draws at once; the first accepted one counts."""
    attempt = jnp.arange(_AT_ONCE, dtype=jnp.int32)
    wide = jax.tree.map(lambda leaf: leaf[..., None], search)
    index = wide.draws + attempt
    layouts = _random_cells(wide.key, index, wide.room, wide.number)
    accepted = is_accepted(to_cells(layouts), wide.exit) & (index < DRAWS) & ~wide.found
    layouts = jnp.where(accepted, layouts, 0)
    chosen = jnp.argmax(accepted, axis=-1)
    return search.replace(
        layout=search.layout | jnp.take_along_axis(layouts, chosen[..., None], axis=-1)[..., 0],
        found=search.found | jnp.any(accepted, axis=-1),
        draws=search.draws + _AT_ONCE,
    )


@outlined
def _random_cells(key: Key, attempt: Array, room: Array, number: Array) -> Array:
    """`number` different cells of the room, uniformly."""
    layout = jnp.zeros_like(room)
    pairs = several(key, Purpose.BLOCK_CELLS, (MOST + 1) // 2, start=8 * attempt)
    for place, random in enumerate(chain(*pairs)):
        block = pick_slot(random, room & ~layout)
        layout = layout | jnp.where(place < number, block, 0)
    return layout


@outlined
def is_accepted(blocks: CellSet, exit_: CellSet) -> Array:
    """All other cells are connected without passing through the exit, and every block has one
    beside it.
    """
    open_cells = EVERY - blocks
    start = cells.constant([0])
    passable = (open_cells - exit_) | start
    reached = start
    for _ in range(LONGEST_PATH):
        reached = reached | (cells.neighbours(reached & passable) & open_cells)
    enclosed = blocks - cells.neighbours(open_cells)
    return ~(open_cells - reached).any() & ~enclosed.any()


def fill(key: Key, layout: Array) -> Board:
    """The blocks with their contents, on a board with nothing else."""
    blocks, rest = [], layout
    for _ in range(MOST):
        blocks.append(slots.first(rest))
        rest = rest & ~blocks[-1]
    content = _contents(key)
    used = sum(field.bits for field in _BLOCK.values())
    bit = np.arange(used, dtype=np.uint32).reshape(used, *(1,) * content.ndim)
    chosen = jnp.where(content >> bit & 1 != 0, jnp.stack(blocks), 0).sum(1, dtype=jnp.uint32)
    program, question, *numbers = (to_cells(layout) for layout in chosen)
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
def _contents(key: Key) -> Array:
    """u32[MOST, ...]: what each block holds, as the fields of _BLOCK."""
    number = np.arange(MOST).reshape(MOST, *(1,) * key.low.ndim)
    kind, points = words(key, Purpose.BLOCK_CONTENT, number)
    kind, points = uniform_below(kind, 20), 1 + uniform_below(points, 9)
    is_program, is_hidden = kind < 10, kind % 10 == 0
    programs = _different_programs(key)
    spawns = jnp.asarray([program.spawn for program in Program], jnp.int32)
    label = jnp.where(is_program, programs, points)
    spawn = jnp.where(is_program, spawns[programs], points)
    return _BLOCK.pack(program=is_program, question=is_hidden, label=label, spawn=spawn)


def _different_programs(key: Key) -> Array:
    """int32[MOST, ...]: different programs, each uniform over those not yet drawn."""
    number = np.arange(MOST).reshape(MOST, *(1,) * key.low.ndim)
    low, high = _pack_different_programs(key)
    which, place = np.divmod(number, _LABELS_A_WORD)
    packed = jnp.where(which == 0, low, high) >> (bits.LABEL * place).astype(np.uint32)
    return (packed & np.uint32(bits.greatest(bits.LABEL))).astype(jnp.int32)


@outlined
def _pack_different_programs(key: Key) -> tuple[Array, Array]:
    """The draws in order, in two words."""
    assert MOST <= 2 * _LABELS_A_WORD
    unused = jnp.zeros_like(key.low) + np.uint32((1 << len(Program)) - 1)
    packed = [jnp.zeros_like(key.low), jnp.zeros_like(key.low)]
    pairs = several(key, Purpose.BLOCK_PROGRAMS, (MOST + 1) // 2)
    for number, random in enumerate(list(chain(*pairs))[:MOST]):
        program = slots.nth(unused, uniform_below(random, slots.count(unused)))
        unused = unused & ~(slots.ONE << program)
        which, place = divmod(number, _LABELS_A_WORD)
        packed[which] = packed[which] | program << np.uint32(bits.LABEL * place)
    return packed[0], packed[1]
