"""A direction action: shoot along the line, or walk (section 4 of the rules)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hackmatrix.game import cells, combat, slots
from hackmatrix.game.cells import SIZE, CellSet, column_of, on_board, row_of
from hackmatrix.game.outline import outlined
from hackmatrix.game.state import Effects, State

Array = jax.Array


@outlined
def first_target(
    player: Array, direction: Array, enemies: CellSet, transmissions: CellSet, blocks: CellSet
) -> tuple[Array, Array, Array]:
    """Returns whether the line's first target is a transmission, whether an enemy, and its cell."""
    row, column = row_of(player), column_of(player)
    nothing = jnp.zeros_like(direction, dtype=bool)
    is_open, at_transmission, at_enemy = ~nothing, nothing, nothing
    target = jnp.zeros_like(direction)
    for distance in range(1, SIZE):
        far_row, far_column = ahead(row, column, direction, distance)
        is_open = is_open & on_board(far_row, far_column)
        cell = jnp.where(is_open, SIZE * far_row + far_column, 0)
        has_transmission = is_open & transmissions.has(cell)
        has_enemy = is_open & ~has_transmission & enemies.has(cell)
        at_transmission = at_transmission | has_transmission
        at_enemy = at_enemy | has_enemy
        target = jnp.where(has_transmission | has_enemy, cell, target)
        is_open = is_open & ~has_transmission & ~has_enemy & ~blocks.has(cell)
    return at_transmission, at_enemy, target


def ahead(row: Array, column: Array, direction: Array, distance: int) -> tuple[Array, Array]:
    vertical = jnp.where(direction == 0, distance, jnp.where(direction == 1, -distance, 0))
    horizontal = jnp.where(direction == 3, distance, jnp.where(direction == 2, -distance, 0))
    return row + vertical, column + horizontal


def move(state: State, active: Array, direction: Array) -> tuple[State, Effects]:
    """Takes the direction action on the active boards."""
    at_transmission, at_enemy, target = first_target(
        state.player.cell,
        direction,
        slots.cells_of(state.enemies),
        slots.cells_of(state.transmissions),
        state.board.blocks,
    )
    hit_enemy = jnp.where(active & at_enemy, slots.first(slots.at_cell(state.enemies, target)), 0)
    destroyed = jnp.where(
        active & at_transmission, slots.first(slots.at_cell(state.transmissions, target)), 0
    )
    enemies, killed = combat.damage(state.enemies, hit_enemy, state.player.attack)
    kills = combat.counted(state.enemies, killed) + combat.counted(state.transmissions, destroyed)

    player = state.player
    row, column = ahead(row_of(player.cell), column_of(player.cell), direction, 1)
    cell = jnp.where(on_board(row, column), SIZE * row + column, player.cell)
    walks = active & ~at_transmission & ~at_enemy & ~state.board.blocks.has(cell)
    picked = walks & state.board.data_siphon.has(cell)
    return (
        state.replace(
            player=player.replace(
                cell=jnp.where(walks, cell, player.cell),
                data_siphons=player.data_siphons + picked,
            ),
            board=state.board.replace(
                data_siphon=state.board.data_siphon - cells.at(cell).only_if(picked)
            ),
            enemies=enemies,
            transmissions=state.transmissions.replace(
                present=state.transmissions.present & ~destroyed
            ),
        ),
        Effects(kills, picked.astype(jnp.int32), jnp.zeros_like(kills)),
    )
