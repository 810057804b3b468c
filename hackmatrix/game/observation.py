"""The observation (section 11 of the rules): 1545 float32, by way of 47 words.

`encode` writes a board down as 36 cell words, 10 player numbers and the owned programs; `decode`
spreads them into floats. Who stores observations stores the words, a thirtieth of the memory, and
decodes them later.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import digits, slots
from hackmatrix.game.cells import CELLS, HALF, SIZE, CellSet
from hackmatrix.game.digits import Digits
from hackmatrix.game.features import (
    CELL,
    DATA,
    DATA_SIPHON,
    EXIT,
    FEATURES,
    QUESTION,
    features_of,
)
from hackmatrix.game.outline import outlined
from hackmatrix.game.programs import Program
from hackmatrix.game.state import CRYPTOG, State

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
    """f32[1545]: 10 player values, 23 programs, 6x6x42 cell values."""
    return decode(encode(state))


@outlined
def encode(state: State) -> Array:
    """u32[47]: the observation before it is spread into floats."""
    player = state.player
    numbers = [
        player.cell // SIZE, player.cell % SIZE, player.hp, jnp.minimum(player.credits, 50),
        jnp.minimum(player.energy, 50), state.stage - 1, player.data_siphons, player.attack - 1,
        state.show, state.calm, state.owned,
    ]  # fmt: skip
    head = jnp.stack([number.astype(jnp.uint32) for number in numbers], axis=-1)
    return jnp.concatenate([_cell_words(state), head], axis=-1)


@outlined
def decode(words: Array) -> Array:
    """f32[1545] from u32[47]."""
    parts = decode_parts(words)
    cells = parts["cells"].reshape(*words.shape[:-1], CELLS * len(FEATURES))
    return jnp.concatenate([parts["player"], parts["programs"], cells], axis=-1)


def decode_parts(words: Array) -> dict[str, Array]:
    """The parts of the observation from u32[47]. Putting them side by side costs as much as all the
    rest, so who can take them apart should.
    """
    player = words[..., CELLS:-1].astype(jnp.int32).astype(jnp.float32) / _PLAYER_SCALE
    owned = (words[..., -1:] >> np.arange(len(Program), dtype=np.uint32) & 1).astype(jnp.float32)
    cells = features_of(words[..., :CELLS]).reshape(*words.shape[:-1], *PARTS["cells"])
    return {"player": player, "programs": owned, "cells": cells}


def _cell_words(state: State) -> Array:
    """u32[36]: all that is seen of each cell."""
    return jnp.moveaxis(_words_by_cell(state, _enemy_words(state), _turn_words(state)), 0, -1)


@outlined
def _words_by_cell(state: State, enemies: Array, turns: Array) -> Array:
    """u32[36, ...]: cells in front and boards last, so that whole vectors of boards are treated
    alike.
    """
    board = state.board
    shown_program = board.program - board.question
    shown_data = board.data - board.question
    visible = ~(board.blocks - board.siphoned)
    number = _numbers(board.label)
    others = {
        DATA: shown_data, QUESTION: board.question,
        DATA_SIPHON: board.data_siphon, EXIT: board.exit,
    }  # fmt: skip
    other = sum((_bits(held) * np.uint32(code) for code, held in others.items()), jnp.uint32(0))
    seen = CELL.pack(
        content=jnp.where(_bits(shown_program) != 0, 1 + number, other),
        is_program=_bits(shown_program),
        points=_numbers(digits.only(board.label, shown_data)),
        spawn=_numbers(digits.only(board.spawn, ~board.question)),
        amount=_numbers(digits.only(board.amount, visible)),
        energy=_bits(board.energy & visible),
        siphoned=_bits(board.siphoned & board.blocks),
        centre=_bits(board.centre),
    )
    return seen | enemies | turns


@outlined
def _enemy_words(state: State) -> Array:
    """u32[36, ...]: the first enemy of each cell; nothing where it is a cryptog out of sight."""
    enemies = state.enemies
    first = _first_entries(enemies)
    cell = _cells_like(state.show)
    row, column = state.player.cell // SIZE, state.player.cell % SIZE
    in_sight = (cell // SIZE == row) | (cell % SIZE == column) | state.show
    kind = digits.read(enemies.kind, first)
    first = jnp.where((kind == CRYPTOG) & ~in_sight, 0, first)
    return CELL.pack(
        kind=jnp.where(first != 0, 1 + kind, 0),
        hp=digits.read(enemies.hp, first),
        stunned=digits.read((enemies.stunned,), first),
        from_siphon=digits.read((enemies.from_siphon,), first),
    )


@outlined
def _turn_words(state: State) -> Array:
    """u32[36, ...]: the turns of the first transmission of each cell."""
    first = _first_entries(state.transmissions)
    turns = jnp.minimum(digits.read(state.transmissions.turns, first), 4)
    return CELL.pack(turns=turns)


def _cells_like(board: Array) -> np.ndarray:
    """The numbers of the cells, in front of the axes of the boards."""
    return np.arange(CELLS).reshape(CELLS, *(1,) * board.ndim)


def _first_entries(entries: slots.Placed) -> Array:
    """u32[36, ...]: for each cell the slot of the first entry in it, as a set."""
    line = np.arange(SIZE).reshape(SIZE, *(1,) * entries.present.ndim)
    rows = digits.equals(entries.row, line) & entries.present
    here = rows[:, None] & digits.equals(entries.column, line)[None]
    return slots.first(here).reshape(CELLS, *entries.present.shape)


def _bits(chosen: CellSet) -> Array:
    """u32[36, ...]: 1 for each cell of the set."""
    cell = _cells_like(chosen.low)
    word = jnp.where(cell < HALF, chosen.low, chosen.high)
    return word >> (cell % HALF).astype(np.uint32) & np.uint32(1)


def _numbers(numbers: Digits[CellSet]) -> Array:
    """u32[36, ...]: the number in each cell."""
    number = jnp.uint32(0)
    for place, digit in enumerate(numbers):
        number = number | _bits(digit) << np.uint32(place)
    return number
