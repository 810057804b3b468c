"""The observation (section 11 of the rules): 1545 float32 values, decoded from 47 words.

`encode` packs a board into 36 cell words, 10 player numbers and the owned programs; `decode`
expands them into floats. To store observations, store the words, which take a thirtieth of the
memory, and decode them later.
"""

from __future__ import annotations

import functools
import math
import operator

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import digits, several, slots
from hackmatrix.game.cells import CELLS, HALF, SIZE, CellSet, column_of, row_of
from hackmatrix.game.digits import Digits
from hackmatrix.game.features import (
    CELL,
    DATA,
    DATA_SIPHON,
    EXIT,
    FEATURES,
    QUESTION,
    UNIT,
    features_of,
    small_numbers_of,
)
from hackmatrix.game.outline import outlined
from hackmatrix.game.programs import Program
from hackmatrix.game.state import CRYPTOG, State
from hackmatrix.game.tracing import on_cpu

Array = jax.Array
WORDS = CELLS + 11
_PLAYER_SCALE = np.array([5, 5, 3, 50, 50, 7, 10, 2, 1, 1], np.float32)
# The parts of an observation, in their order.
PARTS = {
    "player": (len(_PLAYER_SCALE),),
    "programs": (len(Program),),
    "cells": (SIZE, SIZE, len(FEATURES)),
}
OBSERVATION_SIZE = sum(math.prod(shape) for shape in PARTS.values())


def observe(state: State) -> Array:
    """Returns f32[1545]: 10 player values, 23 programs, 6x6x42 cell values."""
    return decode(encode(state))


@outlined
def encode(state: State) -> Array:
    """Returns u32[47]: the observation before it is expanded into floats."""
    cells = _boards_first(_cell_words(state))
    return jnp.concatenate([cells, jnp.stack(player_words(state), axis=-1)], axis=-1)


def player_words(state: State) -> list[Array]:
    """Returns the 10 numbers of the player, and the word of owned programs."""
    player = state.player
    numbers = [
        row_of(player.cell), column_of(player.cell), player.hp, jnp.minimum(player.credits, 50),
        jnp.minimum(player.energy, 50), state.stage - 1, player.data_siphons, player.attack - 1,
        state.show, state.calm, state.owned,
    ]  # fmt: skip
    return [number.astype(jnp.uint32) for number in numbers]


@outlined
def decode(words: Array) -> Array:
    """Returns f32[1545] from u32[47]."""
    cells = words[..., :CELLS]
    others = jnp.concatenate([*decode_player(words[..., CELLS:]).values()], axis=-1)
    if on_cpu():  # where concatenating would take longer than all the rest
        return jax.lax.dynamic_update_slice_in_dim(_behind_room(cells), others, 0, axis=-1)
    return jnp.concatenate([others, _in_a_row(features_of(cells))], axis=-1)


@outlined
def _behind_room(cell_words: Array) -> Array:
    """Returns f32[1545] from u32[36]: the features of the cells, behind room for the others, which
    an empty cell in front makes. They are written as small numbers first: to write floats into the
    row in one pass, XLA would divide for each to find its cell.
    """
    front = [(0, 0)] * (cell_words.ndim - 1) + [(1, 0)]
    row = _in_a_row(small_numbers_of(jnp.pad(cell_words, front)))[..., -OBSERVATION_SIZE:]
    units = np.tile(UNIT, 1 + CELLS)[-OBSERVATION_SIZE:]
    return row.astype(jnp.int32).astype(jnp.float32) * units


def _in_a_row(features: Array) -> Array:
    """Returns [..., cells * 42] from [..., cells, 42]."""
    return features.reshape(*features.shape[:-2], math.prod(features.shape[-2:]))


def decode_player(words: Array) -> dict[str, Array]:
    """Returns the parts of the observation besides the cells from their words, u32[11]."""
    player = words[..., :-1].astype(jnp.int32).astype(jnp.float32) / _PLAYER_SCALE
    owned = (words[..., -1:] >> np.arange(len(Program), dtype=np.uint32) & 1).astype(jnp.float32)
    return {"player": player, "programs": owned}


def decode_cells(words: Array) -> Array:
    """Returns the cells f32[6, 6, 42] of the observation from their words, u32[36]."""
    return features_of(words).reshape(*words.shape[:-1], *PARTS["cells"])


@outlined
def _boards_first(words: Array) -> Array:
    """Moves the boards to the front. As a pass of its own this is a blocked transposition; XLA for
    CPUs would otherwise fuse it into the computation of the words, and read them across all boards.
    """
    return jnp.moveaxis(words, 0, -1)


@outlined
def _cell_words(state: State) -> Array:
    """Returns u32[36, ...], with the boards last, so that vector units work on many boards at
    once.
    """
    cell = several.numbers(CELLS, state.show)
    parts = (outlined(functools.partial(part, cell=cell))(state) for part in _SEEN)
    return functools.reduce(operator.or_, parts)


def cell_word(state: State, cell: several.Number) -> Array:
    """Returns the word of all that is seen of a cell."""
    return functools.reduce(operator.or_, (part(state, cell) for part in _SEEN))


def _seen_of_board(state: State, cell: several.Number) -> Array:
    board = state.board
    shown_program = board.program - board.question
    shown_data = board.data - board.question
    visible = ~(board.blocks - board.siphoned)

    place = jnp.where(cell < HALF, cell, cell - HALF).astype(jnp.uint32)

    def bit(held: CellSet) -> Array:
        """Returns 1 where the cell is in the set."""
        word = jnp.where(cell < HALF, held.low, held.high)
        return word >> place & np.uint32(1)

    def number(numbers: Digits[CellSet]) -> Array:
        digits_here = (bit(digit) << np.uint32(power) for power, digit in enumerate(numbers))
        return functools.reduce(operator.or_, digits_here)

    others = {
        DATA: shown_data, QUESTION: board.question,
        DATA_SIPHON: board.data_siphon, EXIT: board.exit,
    }  # fmt: skip
    other = sum((bit(held) * np.uint32(code) for code, held in others.items()), jnp.uint32(0))
    return CELL.pack(
        content=jnp.where(bit(shown_program) != 0, 1 + number(board.label), other),
        is_program=bit(shown_program),
        points=number(digits.masked(board.label, shown_data)),
        spawn=number(digits.masked(board.spawn, ~board.question)),
        amount=number(digits.masked(board.amount, visible)),
        energy=bit(board.energy & visible),
        siphoned=bit(board.siphoned & board.blocks),
        centre=bit(board.centre),
    )


def _seen_of_enemies(state: State, cell: several.Number) -> Array:
    """Packs the first enemy in the cell, or nothing if it is a cryptog out of sight."""
    enemies = state.enemies
    first = slots.first(slots.at_cell(enemies, cell))
    row, column = row_of(state.player.cell), column_of(state.player.cell)
    in_sight = (row_of(cell) == row) | (column_of(cell) == column) | state.show
    kind = digits.read(enemies.kind, first)
    first = jnp.where((kind == CRYPTOG) & ~in_sight, 0, first)
    return CELL.pack(
        kind=jnp.where(first != 0, 1 + kind, 0),
        hp=digits.read(enemies.hp, first),
        stunned=digits.read((enemies.stunned,), first),
        from_siphon=digits.read((enemies.from_siphon,), first),
    )


def _seen_of_transmissions(state: State, cell: several.Number) -> Array:
    """Packs the turns of the first transmission in the cell."""
    first = slots.first(slots.at_cell(state.transmissions, cell))
    return CELL.pack(turns=jnp.minimum(digits.read(state.transmissions.turns, first), 4))


_SEEN = (_seen_of_board, _seen_of_enemies, _seen_of_transmissions)
