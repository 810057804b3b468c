"""Running a program (section 6 of the rules)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import combat, digits, several, slots
from hackmatrix.game.digits import Digits
from hackmatrix.game.outline import outlined
from hackmatrix.game.programs.contract import Blow, Shove, Steps, Strike
from hackmatrix.game.programs.table import ACTIONS, Program
from hackmatrix.game.randomness import Key
from hackmatrix.game.state import FIRST_PROGRAM, State

Array = jax.Array
Tree = TypeVar("Tree")
_COSTS = np.array([(each.credits, each.energy) for each in Program], np.int32)


def run(state: State, key: Key, action: Array) -> tuple[State, Array]:
    """Pays for and runs the program of this action; other actions change nothing. Also returns the
    number of kills that count.
    """
    state = _pay(state, action)
    state, kills = _strike(state, action)
    state = _shove(state, action)
    for program in Program:
        if not isinstance(program.function, Strike | Shove):
            state, more = program.function(state, key, action == program)
            kills = kills + more
    return state, kills


def _pay(state: State, action: Array) -> State:
    is_program = (action >= FIRST_PROGRAM) & (action < ACTIONS)
    number = action - FIRST_PROGRAM
    costs = (several.look_up(cost, number) for cost in _COSTS.T)
    credits, energy = (jnp.where(is_program, cost, 0) for cost in costs)
    player = state.player
    return state.replace(
        player=player.replace(credits=player.credits - credits, energy=player.energy - energy)
    )


def _strike(state: State, action: Array) -> tuple[State, Array]:
    """Deals the damage of all strikes in one pass; at most one is active on a board."""
    enemies, blow = state.enemies, _blow(state, action)
    removed = enemies.present & blow.removed
    hit = enemies.present & blow.hit & ~removed
    survivors, killed = combat.damage(enemies, hit, jnp.asarray(blow.damage))
    survivors = survivors.replace(present=survivors.present & ~removed)
    return state.replace(enemies=survivors), combat.counted(enemies, killed | removed)


@outlined
def _blow(state: State, action: Array) -> Blow:
    blows = {
        program: program.function.blow(state)
        for program in Program
        if isinstance(program.function, Strike)
    }
    return _active(blows, action, Blow(jnp.uint32(0), jnp.int32(0)))


def _shove(state: State, action: Array) -> State:
    """Moves the enemies of all shoves in one pass; at most one is active on a board."""
    enemies, (row, column) = state.enemies, _targets(state, action)
    changed = (a ^ b for a, b in zip((*row, *column), (*enemies.row, *enemies.column), strict=True))
    moved = enemies.present & digits.nonzero(tuple(changed))
    arriving = slots.firsts(enemies.replace(present=moved, row=row, column=column))
    return state.replace(
        enemies=enemies.replace(
            row=digits.select(arriving, row, enemies.row),
            column=digits.select(arriving, column, enemies.column),
        )
    )


@outlined
def _targets(state: State, action: Array) -> tuple[Digits[Array], Digits[Array]]:
    """Returns the rows and columns to which enemies would move."""
    all_steps = {
        program: program.function.steps(state)
        for program in Program
        if isinstance(program.function, Shove)
    }
    steps = _active(all_steps, action, Steps(*[jnp.uint32(0)] * 4))
    row = digits.minus_one(digits.plus_one(state.enemies.row, steps.up), steps.down)
    return row, digits.minus_one(digits.plus_one(state.enemies.column, steps.right), steps.left)


def _active(results: Mapping[Program, Tree], action: Array, nothing: Tree) -> Tree:
    """Returns the result of the active program, or `nothing` if none is active."""
    for program, result in results.items():
        is_active = action == program
        nothing = jax.tree.map(lambda n, o, a=is_active: jnp.where(a, n, o), result, nothing)
    return nothing
