"""CRASH, WARP and POLY: programs that remove enemies or transmissions, each in its own way."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix.game import cells, combat, digits, slots
from hackmatrix.game.digits import Digits
from hackmatrix.game.outline import outlined
from hackmatrix.game.programs.contract import Situation
from hackmatrix.game.randomness import (
    Key,
    Purpose,
    pick_slot,
    uniform_below,
    with_each_drawn,
    words,
)
from hackmatrix.game.state import Board, Enemies, State, Transmissions

Array = jax.Array


def crash(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Removes the blocks, enemies and transmissions in the 8 cells around the player."""
    enemies, transmissions, board = state.enemies, state.transmissions, state.board
    killed, enemy_kills = _crashed(enemies, state.player.cell, active)
    destroyed, transmission_kills = _crashed(transmissions, state.player.cell, active)
    blocks = _blocks_around(board, state.player.cell).only_if(active)
    return (
        state.replace(
            board=board.replace(
                data=board.data - blocks,
                program=board.program - blocks,
                question=board.question - blocks,
                label=digits.masked(board.label, ~blocks),
                spawn=digits.masked(board.spawn, ~blocks),
            ),
            enemies=enemies.replace(present=enemies.present & ~killed),
            transmissions=transmissions.replace(present=transmissions.present & ~destroyed),
        ),
        enemy_kills + transmission_kills,
    )


def is_anything_around(now: Situation) -> Array:
    around = cells.around(cells.at(now.state.player.cell))
    return (around & (now.state.board.blocks | now.enemies | now.transmissions)).any()


@outlined
def _crashed(entries: Enemies | Transmissions, cell: Array, active: Array) -> tuple[Array, Array]:
    """Returns the slots of the entries around the cell, and the number of kills that count: at most
    one for each cell.
    """
    killed, firsts = jnp.uint32(0), jnp.uint32(0)
    for there in slots.around(entries, cell):
        killed, firsts = killed | there, firsts | slots.first(there)
    return jnp.where(active, killed, 0), jnp.where(active, combat.counted(entries, firsts), 0)


@outlined
def _blocks_around(board: Board, cell: Array) -> cells.CellSet:
    return cells.around(cells.at(cell)) & board.blocks


def warp(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Moves the player to the cell of a random enemy or transmission. It removes all enemies there
    if the target is an enemy, else all transmissions there.
    """
    enemies, transmissions = state.enemies, state.transmissions
    cell, at_enemy = _warp_target(enemies, transmissions, key)
    killed = jnp.where(active & at_enemy, slots.at_cell(enemies, cell), 0)
    destroyed = jnp.where(active & ~at_enemy, slots.at_cell(transmissions, cell), 0)
    kills = combat.counted(enemies, slots.first(killed))
    kills = kills + combat.counted(transmissions, slots.first(destroyed))
    return (
        state.replace(
            player=state.player.replace(cell=jnp.where(active, cell, state.player.cell)),
            enemies=enemies.replace(present=enemies.present & ~killed),
            transmissions=transmissions.replace(present=transmissions.present & ~destroyed),
        ),
        kills,
    )


def is_any_enemy_or_transmission(now: Situation) -> Array:
    return now.state.enemies.present | now.state.transmissions.present != 0


@outlined
def _warp_target(enemies: Enemies, transmissions: Transmissions, key: Key) -> tuple[Array, Array]:
    """Returns the cell of a random enemy or transmission, and whether it is that of an enemy."""
    random, which = words(key, Purpose.WARP, 0)
    number = slots.count(enemies.present)
    at_enemy = uniform_below(random, number + slots.count(transmissions.present)) < number
    enemy, transmission = (pick_slot(which, each.present) for each in (enemies, transmissions))
    cell = jnp.where(
        at_enemy, slots.cell_of(enemies, enemy), slots.cell_of(transmissions, transmission)
    )
    return cell, at_enemy


def poly(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Turns every enemy into one of the 3 other kinds; the damage that it has taken remains."""
    changed = jnp.where(active, state.enemies.present, 0)
    enemies, died = combat.change_kind(
        state.enemies, changed, _other_kinds(key, state.enemies.kind)
    )
    return state.replace(enemies=enemies), combat.counted(state.enemies, died)


@outlined
def _other_kinds(key: Key, kind: Digits[Array]) -> Digits[Array]:
    """Draws for every slot one of the 3 other kinds: flips one or both of its two digits. A draw
    that flips none is repeated; if 12 draws flip none, the high digit is flipped.
    """

    def fill(_: Any, more: tuple[Array, Array], flips: tuple[Array, Array]) -> tuple[Array, Array]:
        missing = ~(flips[0] | flips[1])
        return flips[0] | (more[0] & missing), flips[1] | (more[1] & missing)

    none = jnp.zeros_like(key.low)
    low, high = with_each_drawn(fill, (none, none), key, Purpose.POLY, 12)
    high = high | ~(low | high)
    return kind[0] ^ low, kind[1] ^ high
