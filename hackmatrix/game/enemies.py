"""The enemies' steps: attack when next to the player, else walk towards it (section 7, point 3)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
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

    unhindered, through = shortest_ways(here, player - walls, cells.EVERY - walls, taken)
    step_through = slots.first(through) & ~_directions(here, taken)
    allowed = _directions(here, cells.EVERY - walls - taken)
    closest = _closest(allowed, row, column, player_row, player_column)

    steps = jnp.where(step_through != 0, step_through, closest)
    steps = jnp.where(unhindered != 0, unhindered, steps)
    distance = jnp.abs(row - player_row) + jnp.abs(column - player_column)
    first = slots.count(slots.first(steps) - slots.ONE)
    return jnp.where(distance == 1, ATTACK, jnp.where(steps == 0, STAY, first))


@outlined
def shortest_ways(here: CellSet, goal: CellSet, free: CellSet, taken: CellSet) -> Array:
    """u32[2, ...]: the first steps of the shortest ways to the goal through free cells, and the
    same as if no cell was taken. Bit i: direction i.
    """
    untaken = np.array([0, 0xFFFFFFFF], np.uint32).reshape(2, *(1,) * taken.low.ndim)
    free = free - (taken - CellSet(untaken, untaken))
    near = cells.neighbours(here)
    reached, nearest = goal, cells.EMPTY
    for _ in range(LONGEST_PATH - 1):
        reached = cells.spread(reached, free)
        nearest = cells.where(nearest.any(), nearest, reached & near)
    return _directions(here, nearest)


def _directions(here: CellSet, among: CellSet) -> Array:
    """The directions in which the next cell is in the set; bit i: direction i."""
    directions = jnp.uint32(0)
    for number, direction in enumerate(cells.DIRECTIONS):
        found = (direction(here) & among).any()
        directions = directions | found.astype(jnp.uint32) << np.uint32(number)
    return directions


def _closest(
    allowed: Array, row: Array, column: Array, player_row: Array, player_column: Array
) -> Array:
    """The allowed direction that leads nearest to the player, the first one on ties."""
    best, least = jnp.uint32(0), jnp.int32(99)
    for number, (up, right) in enumerate(((1, 0), (-1, 0), (0, -1), (0, 1))):
        direction = slots.ONE << np.uint32(number)
        distance = jnp.abs(row + up - player_row) + jnp.abs(column + right - player_column)
        better = (allowed & direction != 0) & (distance < least)
        best = jnp.where(better, direction, best)
        least = jnp.where(better, distance, least)
    return best
