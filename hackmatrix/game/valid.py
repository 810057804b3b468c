"""The valid actions (section 3 of the rules)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import cells, digits, slots
from hackmatrix.game.cells import CellSet
from hackmatrix.game.outline import outlined
from hackmatrix.game.state import (
    ACTIONS,
    ANTI_V,
    ATK,
    CALM,
    COL,
    CRASH,
    CREDIT_COST,
    D_BOM,
    DAEMON,
    DEBUG,
    DELAY,
    ENERGY_COST,
    FIRST_PROGRAM,
    HACK,
    MAX_HP,
    POLY,
    PROGRAMS,
    PULL,
    PUSH,
    REDUC,
    RESET,
    ROW,
    SCORE,
    SHOW,
    STAGES,
    UNDO,
    VIRUS,
    WARP,
    State,
)  # fmt: skip

Array = jax.Array


def valid_actions(state: State) -> Array:
    """bool[28]: which actions are valid."""
    return (valid_word(state)[..., None] >> np.arange(ACTIONS, dtype=np.uint32)) & 1 != 0


def valid_word(state: State) -> Array:
    """The valid actions as one word; bit i: action i."""
    enemies, transmissions = slots.cells_of(state.enemies), slots.cells_of(state.transmissions)
    return _valid_word(state, enemies, transmissions)


@outlined
def _valid_word(state: State, enemy_cells: CellSet, transmission_cells: CellSet) -> Array:
    player = state.player
    usable = _usable(state, enemy_cells, transmission_cells)
    conditions = _directions(state, enemy_cells)
    conditions.append(player.data_siphons > 0)
    for number in range(len(PROGRAMS)):
        affordable = (player.credits >= CREDIT_COST[number]) & (
            player.energy >= ENERGY_COST[number]
        )
        owned = state.owned >> np.uint32(number) & 1 != 0
        conditions.append(owned & affordable & usable.get(FIRST_PROGRAM + number, True))
    word = jnp.uint32(0)
    for action, condition in enumerate(conditions):
        word = word | condition.astype(jnp.uint32) << np.uint32(action)
    return word


def _directions(state: State, enemy_cells: CellSet) -> list[Array]:
    here = cells.at(state.player.cell)
    blocked = state.board.blocks - enemy_cells
    return [(direction(here) - blocked).any() for direction in cells.DIRECTIONS]


def _usable(state: State, enemy_cells: CellSet, transmission_cells: CellSet) -> dict[int, Array]:
    """When a program is usable besides owned and affordable; those not named always are."""
    player, board, enemies = state.player, state.board, state.enemies
    some_enemy = enemies.present != 0
    some_transmission = state.transmissions.present != 0
    crashable = board.blocks | enemy_cells | transmission_cells
    here = cells.at(player.cell)
    row, column = player.cell // cells.SIZE, player.cell % cells.SIZE
    return {
        PUSH: some_enemy,
        PULL: some_enemy,
        CRASH: (cells.around(here) & crashable).any(),
        WARP: some_enemy | some_transmission,
        POLY: some_enemy,
        DEBUG: (enemy_cells & board.blocks).any(),
        ROW: enemies.present & digits.equals(enemies.row, row) != 0,
        COL: enemies.present & digits.equals(enemies.column, column) != 0,
        UNDO: state.history.depth > 0,
        SHOW: ~state.show,
        RESET: player.hp < MAX_HP,
        CALM: ~state.calm,
        D_BOM: enemies.present & digits.equals(enemies.kind, DAEMON) != 0,
        DELAY: some_transmission,
        ANTI_V: enemies.present & digits.equals(enemies.kind, VIRUS) != 0,
        SCORE: state.stage < STAGES,
        REDUC: ((board.blocks - board.siphoned) & digits.nonzero(board.spawn)).any(),
        ATK: state.atk_uses < 2,
        HACK: board.siphoned.any(),
    }
