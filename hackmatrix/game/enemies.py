"""The enemies' steps: attack when next to the player, else walk towards it (section 7, point 3)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.game import cells, few, slots
from hackmatrix.game.cells import LONGEST_PATH, SIZE, CellSet
from hackmatrix.game.outline import outlined
from hackmatrix.game.randomness import Key, Purpose, pick_slot, word
from hackmatrix.game.slots import Digits
from hackmatrix.game.state import GLITCH, VIRUS, State

Array = jax.Array

STAY, ATTACK = 4, 5  # beside the four directions


class Melee(struct.PyTreeNode):
    """What the enemies' steps read and change."""

    key: Key
    player: Array  # its cell
    hp_lost: Array
    blocks: CellSet
    transmissions: CellSet
    present: Array
    row: Digits
    column: Digits
    glitches: Array
    todo: Array  # slots that still act in this step
    again: Array  # slots that act in the second step
    second: Array  # whether this is the second step


def enemy_steps(state: State, key: Key, active: Array) -> State:
    """All enemies of the active boards act, in a uniformly random order in each step."""
    enemies = state.enemies
    able = jnp.where(active, enemies.present & ~enemies.disabled & ~enemies.stunned, 0)
    melee = Melee(
        key=key,
        player=state.player.cell,
        hp_lost=jnp.zeros_like(state.player.hp),
        blocks=state.board.blocks,
        transmissions=slots.cells_of(state.transmissions),
        present=enemies.present,
        row=enemies.row,
        column=enemies.column,
        glitches=slots.equals(enemies.kind, GLITCH),
        todo=able,
        again=able & slots.equals(enemies.kind, VIRUS),
        second=jnp.zeros_like(active),
    )
    boards = active.shape[0]
    wide, narrow = max(128, boards // 4), max(128, boards // 32)
    melee = few.apply(_is_acting, _act_twice, melee, wide, enough=narrow)
    melee = few.repeat(_is_acting, act, melee, narrow)
    return state.replace(
        player=state.player.replace(hp=jnp.maximum(state.player.hp - melee.hp_lost, 0)),
        enemies=enemies.replace(row=melee.row, column=melee.column),
    )


def _is_acting(melee: Melee) -> Array:
    return melee.todo != 0


def _act_twice(melee: Melee) -> Melee:
    return jax.lax.fori_loop(0, 2, lambda _, melee: act(melee), melee)


def act(melee: Melee) -> Melee:
    """One enemy of each board acts, where one is left to act."""
    turn = slots.count(melee.todo) + jnp.where(melee.second, 64, 0)
    actor = _pick_actor(melee.key, turn, melee.todo)
    decision = decide(melee, actor)
    attacks = (decision == ATTACK) & (actor != 0)
    again = melee.again & ~jnp.where(attacks, actor, 0)
    todo = melee.todo & ~actor
    over = todo == 0
    return melee.replace(
        hp_lost=melee.hp_lost + attacks,
        row=_shift(melee.row, actor, decision == 0, decision == 1),
        column=_shift(melee.column, actor, decision == 3, decision == 2),
        todo=jnp.where(over, again, todo),
        again=jnp.where(over, 0, again),
        second=melee.second | over,
    )


@outlined
def _pick_actor(key: Key, turn: Array, todo: Array) -> Array:
    return pick_slot(word(key, Purpose.ENEMY_ORDER, turn), todo)


def _shift(digits: Digits, slot: Array, up: Array, down: Array) -> Digits:
    number = slots.read(digits, slot)
    return slots.write(digits, slot, number + up - down)


@outlined
def decide(melee: Melee, actor: Array) -> Array:
    """What the actor does: a direction, STAY or ATTACK."""
    row, column = slots.read(melee.row, actor), slots.read(melee.column, actor)
    player_row, player_column = melee.player // SIZE, melee.player % SIZE
    here, player = cells.at(SIZE * row + column), cells.at(melee.player)
    walls = melee.blocks.only_if((melee.glitches & actor) == 0)
    others = slots.cells_of(melee, melee.present & ~actor)
    taken = others | melee.transmissions
    goal = player - walls
    near = cells.neighbours(here)

    unhindered = nearest_to(goal, cells.EVERY - walls - taken, near)
    through = nearest_to(goal, cells.EVERY - walls, near)
    step_through = one_of(through, here) - taken
    closest = _closest(near - walls - taken, row, column, player_row, player_column)

    steps = cells.where(step_through.any(), step_through, closest)
    steps = cells.where(unhindered.any(), unhindered, steps)
    distance = jnp.abs(row - player_row) + jnp.abs(column - player_column)
    return jnp.where(distance == 1, ATTACK, _direction(steps, here))


def nearest_to(goal: CellSet, free: CellSet, near: CellSet) -> CellSet:
    """Those of the near cells from which the way to the goal through free cells is shortest."""
    reached, nearest = goal, cells.EMPTY
    for _ in range(LONGEST_PATH - 1):
        reached = cells.spread(reached, free)
        nearest = cells.where(nearest.any(), nearest, reached & near)
    return nearest


def one_of(steps: CellSet, here: CellSet) -> CellSet:
    """The first of these neighbours in direction order."""
    chosen = cells.EMPTY
    for direction in reversed(cells.DIRECTIONS):
        neighbour = direction(here) & steps
        chosen = cells.where(neighbour.any(), neighbour, chosen)
    return chosen


def _direction(steps: CellSet, here: CellSet) -> Array:
    chosen = jnp.int32(STAY)
    for number in reversed(range(4)):
        neighbour = cells.DIRECTIONS[number](here) & steps
        chosen = jnp.where(neighbour.any(), number, chosen)
    return chosen


def _closest(
    allowed: CellSet, row: Array, column: Array, player_row: Array, player_column: Array
) -> CellSet:
    """The allowed neighbour nearest to the player, the first in direction order on ties."""
    here = cells.at(SIZE * row + column)
    best, least = cells.EMPTY, jnp.int32(99)
    for direction, (up, right) in zip(
        cells.DIRECTIONS, ((1, 0), (-1, 0), (0, -1), (0, 1)), strict=True
    ):
        neighbour = direction(here) & allowed
        distance = jnp.abs(row + up - player_row) + jnp.abs(column + right - player_column)
        better = neighbour.any() & (distance < least)
        best = cells.where(better, neighbour, best)
        least = jnp.where(better, distance, least)
    return best
