"""The observation (section 11 of the rules): 1545 float32, by way of 47 words.

`encode` writes a board down as 36 cell words, 10 player numbers and the owned programs; `decode`
spreads them into floats. Who stores observations stores the words, a thirtieth of the memory, and
decodes them later.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import digits, slots
from hackmatrix.game.cells import CELLS, HALF, SIZE, CellSet
from hackmatrix.game.digits import Digits
from hackmatrix.game.outline import outlined
from hackmatrix.game.state import CRYPTOG, PROGRAMS, State

Array = jax.Array
CELL_FEATURES = 42
OBSERVATION_SIZE = 10 + len(PROGRAMS) + CELLS * CELL_FEATURES
WORDS = CELLS + 11
_PLAYER_SCALE = np.array([5, 5, 3, 50, 50, 7, 10, 2, 1, 1], np.float32)

# The fields of a cell word: first bit, number of bits.
_KIND, _HP, _STUNNED, _FROM_SIPHON = (0, 3), (3, 2), (5, 1), (6, 1)
_BLOCK, _IS_PROGRAM, _POINTS, _SIPHONED, _SPAWN = (7, 5), (12, 1), (13, 4), (17, 1), (18, 4)
_TURNS, _CREDITS, _ENERGY = (22, 3), (25, 2), (27, 2)
_DATA_SIPHON, _EXIT, _CENTRE = (29, 1), (30, 1), (31, 1)
_DATA, _QUESTION = 24, 25  # in _BLOCK, beside 1..23 for program 0..22 and 0 for no block


def _feature_table() -> list[tuple[tuple[int, int], int, float]]:
    """Every cell feature: the field it shows, the value it stands for (0: the number itself), its
    unit.
    """
    return [
        *[(_KIND, 1 + kind, 1) for kind in range(4)],
        (_HP, 0, 3), (_STUNNED, 0, 1), (_FROM_SIPHON, 0, 1),
        (_BLOCK, _DATA, 1), (_IS_PROGRAM, 0, 1), (_BLOCK, _QUESTION, 1),
        (_POINTS, 0, 9), (_SIPHONED, 0, 1),
        *[(_BLOCK, 1 + program, 1) for program in range(len(PROGRAMS))],
        (_SPAWN, 0, 9), (_TURNS, 0, 4), (_CREDITS, 0, 3), (_ENERGY, 0, 3),
        (_DATA_SIPHON, 0, 1), (_EXIT, 0, 1), (_CENTRE, 0, 1),
    ]  # fmt: skip


_TABLE = _feature_table()
_START = np.array([field[0] for field, _, _ in _TABLE], np.uint32)
_MASK = np.array([(1 << field[1]) - 1 for field, _, _ in _TABLE], np.uint32)
_VALUE = np.array([value for _, value, _ in _TABLE], np.uint32)
_UNIT = np.array([1 / unit for _, _, unit in _TABLE], np.float32)


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
    return jnp.concatenate(decode_parts(words), axis=-1)


def decode_parts(words: Array) -> tuple[Array, Array]:
    """f32[33] and f32[1512] from u32[47]: player and programs, and the cells. Putting them side by
    side costs as much as all the rest, so who can take them apart should.
    """
    player = words[..., CELLS:-1].astype(jnp.int32).astype(jnp.float32) / _PLAYER_SCALE
    owned = (words[..., -1:] >> np.arange(len(PROGRAMS), dtype=np.uint32) & 1).astype(jnp.float32)
    grid = _spread(words[..., :CELLS]).reshape(*words.shape[:-1], CELLS * CELL_FEATURES)
    return jnp.concatenate([player, owned], axis=-1), grid


@outlined
def _spread(cell_words: Array) -> Array:
    """f32[36, 42]: the features of each cell."""
    fields = cell_words[..., None] >> _START & _MASK
    shown = jnp.where(_VALUE == 0, fields.astype(jnp.int32), (fields == _VALUE).astype(jnp.int32))
    return shown.astype(jnp.float32) * _UNIT


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
    bare = ~(board.blocks - board.siphoned)
    number = _numbers(board.label)
    block = jnp.where(
        _bits(shown_program) != 0, number + 1,
        _bits(board.question) * _QUESTION + _bits(shown_data) * _DATA,
    )  # fmt: skip
    fields = {
        _BLOCK: block,
        _IS_PROGRAM: _bits(shown_program),
        _POINTS: _numbers(digits.only(board.label[:4], shown_data)),
        _SIPHONED: _bits(board.siphoned & board.blocks),
        _SPAWN: _numbers(digits.only(board.spawn, ~board.question)),
        _CREDITS: _numbers(digits.only(board.credits, bare)),
        _ENERGY: _numbers(digits.only(board.energy, bare)),
        _DATA_SIPHON: _bits(board.data_siphon),
        _EXIT: _bits(board.exit),
        _CENTRE: _bits(board.centre),
    }
    return enemies | turns | _join(fields)


def _join(fields: dict[tuple[int, int], Array]) -> Array:
    word = jnp.uint32(0)
    for (start, _), number in fields.items():
        word = word | number.astype(jnp.uint32) << np.uint32(start)
    return word


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
    return _join(
        {
            _KIND: jnp.where(first != 0, 1 + kind, 0),
            _HP: digits.read(enemies.hp, first),
            _STUNNED: digits.read((enemies.stunned,), first),
            _FROM_SIPHON: digits.read((enemies.from_siphon,), first),
        }
    )


@outlined
def _turn_words(state: State) -> Array:
    """u32[36, ...]: the turns of the first transmission of each cell."""
    first = _first_entries(state.transmissions)
    turns = jnp.minimum(digits.read(state.transmissions.turns, first), 4)
    return _join({_TURNS: turns})


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
