"""The enemies' steps: attack when next to the player, else walk towards it (section 7, point 3)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix.game import cells, digits, few, several, slots
from hackmatrix.game.cells import LONGEST_PATH, SIZE, CellSet, column_of, row_of
from hackmatrix.game.digits import Digits
from hackmatrix.game.outline import outlined
from hackmatrix.game.randomness import Key, Purpose, pick_slot, word
from hackmatrix.game.state import GLITCH, VIRUS, State
from hackmatrix.game.tracing import in_gpu_kernel

Array = jax.Array

STAY, ATTACK = 4, 5  # decisions besides the four directions


class Stepping(struct.PyTreeNode):
    """What the enemies' steps read and change."""

    key: Key
    player: Array  # its cell
    hp_lost: Array
    blocks: CellSet
    transmissions: CellSet
    present: Array
    row: Digits[Array]
    column: Digits[Array]
    glitches: Array
    to_act: Array  # slots that are yet to act in this step
    to_act_again: Array  # slots that act in the second step
    is_second: Array  # whether this is the second step


def enemy_steps(state: State, key: Key, active: Array) -> State:
    """Lets all enemies of the active boards act, in a uniformly random order in each step."""
    enemies = state.enemies
    able = jnp.where(active, enemies.present & ~enemies.disabled & ~enemies.stunned, 0)
    stepping = Stepping(
        key=key,
        player=state.player.cell,
        hp_lost=jnp.zeros_like(state.player.hp),
        blocks=state.board.blocks,
        transmissions=slots.cells_of(state.transmissions),
        present=enemies.present,
        row=enemies.row,
        column=enemies.column,
        glitches=digits.equals(enemies.kind, GLITCH),
        to_act=able,
        to_act_again=able & digits.equals(enemies.kind, VIRUS),
        is_second=jnp.zeros_like(active),
    )
    stepping = few.apply(_is_acting, _act_twice, stepping, few.ENEMIES, rest=few.LAST_ENEMIES)
    stepping = few.repeat(_is_acting, act, stepping, few.LAST_ENEMIES)
    return state.replace(
        player=state.player.replace(hp=jnp.maximum(state.player.hp - stepping.hp_lost, 0)),
        enemies=enemies.replace(row=stepping.row, column=stepping.column),
    )


def _is_acting(stepping: Stepping) -> Array:
    return stepping.to_act != 0


def _act_twice(stepping: Stepping) -> Stepping:
    return jax.lax.fori_loop(0, 2, lambda _, stepping: act(stepping), stepping)


def act(stepping: Stepping) -> Stepping:
    """Lets one enemy act on each board that has one left to act."""
    turn = slots.count(stepping.to_act) + jnp.where(stepping.is_second, 64, 0)
    actor = _pick_actor(stepping.key, turn, stepping.to_act)
    decision = decide(stepping, actor)
    attacks = (decision == ATTACK) & (actor != 0)
    to_act_again = stepping.to_act_again & ~jnp.where(attacks, actor, 0)
    to_act = stepping.to_act & ~actor
    over = to_act == 0
    return stepping.replace(
        hp_lost=stepping.hp_lost + attacks,
        row=_shift(stepping.row, actor, decision == 0, decision == 1),
        column=_shift(stepping.column, actor, decision == 3, decision == 2),
        to_act=jnp.where(over, to_act_again, to_act),
        to_act_again=jnp.where(over, 0, to_act_again),
        is_second=stepping.is_second | over,
    )


@outlined
def _pick_actor(key: Key, turn: Array, to_act: Array) -> Array:
    return pick_slot(word(key, Purpose.ENEMY_ORDER, turn), to_act)


def _shift(numbers: Digits[Array], slot: Array, up: Array, down: Array) -> Digits[Array]:
    """Returns the numbers, with that of this slot raised by one if `up`, lowered if `down`."""
    raised = digits.plus_one(numbers, jnp.where(up, slot, 0))
    return digits.minus_one(raised, jnp.where(down, slot, 0))


@outlined
def decide(stepping: Stepping, actor: Array) -> Array:
    """Returns what the actor does: a direction, STAY or ATTACK."""
    others = slots.cells_of(stepping, stepping.present & ~actor)
    unhindered, through = shortest_ways(stepping, actor, others)

    cell = slots.cell_of(stepping, actor)
    here, walls, taken = cells.at(cell), _walls(stepping, actor), others | stepping.transmissions
    step_through = slots.first(through) & ~_directions(here, taken)
    closest = _closest(_directions(here, cells.EVERY - walls - taken), cell, stepping.player)

    steps = jnp.where(step_through != 0, step_through, closest)
    steps = jnp.where(unhindered != 0, unhindered, steps)
    first = slots.count(slots.first(steps) - slots.ONE)
    decision = jnp.where(steps == 0, STAY, first)
    return jnp.where(_distance(cell, stepping.player) == 1, ATTACK, decision)


def shortest_ways(stepping: Stepping, actor: Array, others: CellSet) -> list[Array]:
    """Returns the directions in which the actor's shortest ways to the player begin: first of the
    ways around all obstacles, then of those around walls alone.
    """
    here, walls = cells.at(slots.cell_of(stepping, actor)), _walls(stepping, actor)

    def first_steps(number: several.Number) -> Array:
        counts: Any = np.where(number == 0, slots.ALL, np.uint32(0))
        taken = (others | stepping.transmissions) & CellSet(counts, counts)
        free, near = cells.EVERY - walls - taken, cells.neighbours(here)

        def spread(found: tuple[CellSet, CellSet]) -> tuple[CellSet, CellSet]:
            reached, nearest = found
            further = cells.spread(reached, free)
            if in_gpu_kernel():  # there `repeated` stops once nothing changes
                further = cells.where(nearest.any(), reached, further)
            return further, cells.where(nearest.any(), nearest, further & near)

        begin = cells.at(stepping.player) - walls, near & cells.EMPTY
        _, nearest = several.repeated(LONGEST_PATH - 1, spread, begin)
        return _directions(here, nearest)

    return several.each(2, first_steps, actor)


def _walls(stepping: Stepping, actor: Array) -> CellSet:
    """Returns the blocks, or the empty set for a glitch, which walks over them."""
    return stepping.blocks.only_if((stepping.glitches & actor) == 0)


def _directions(here: CellSet, among: CellSet) -> Array:
    """Returns the directions whose next cell is in the set, bit i for direction i."""
    directions = jnp.uint32(0)
    for number, direction in enumerate(cells.DIRECTIONS):
        found = (direction(here) & among).any()
        directions = directions | found.astype(jnp.uint32) << np.uint32(number)
    return directions


def _closest(allowed: Array, cell: Array, player: Array) -> Array:
    """Returns the allowed direction that leads nearest to the player, the first on ties."""
    best, least = jnp.uint32(0), jnp.int32(99)
    for number, step in enumerate((SIZE, -SIZE, -1, 1)):
        direction = slots.ONE << np.uint32(number)
        distance = _distance(cell + step, player)
        better = (allowed & direction != 0) & (distance < least)
        best = jnp.where(better, direction, best)
        least = jnp.where(better, distance, least)
    return best


def _distance(cell: Array, other: Array) -> Array:
    return jnp.abs(row_of(cell) - row_of(other)) + jnp.abs(column_of(cell) - column_of(other))
