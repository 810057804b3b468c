"""The valid actions (section 3 of the rules)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import cells, slots
from hackmatrix.game.outline import outlined
from hackmatrix.game.programs import ACTIONS, Program
from hackmatrix.game.programs.contract import Situation
from hackmatrix.game.state import State

Array = jax.Array


def valid_actions(state: State) -> Array:
    """Returns which actions are valid, bool[..., 28]."""
    return _flags_of(valid_word(state))


@outlined
def _flags_of(word: Array) -> Array:
    """Returns the bits of the word. It is outlined to be computed for many actions at once: fused
    into an `argmax`, as XLA for CPUs does otherwise, it is computed for one at a time.
    """
    return (word[..., None] >> np.arange(ACTIONS, dtype=np.uint32)) & 1 != 0


def valid_word(state: State) -> Array:
    """Returns the valid actions as one word: bit i for action i."""
    enemies, transmissions = slots.cells_of(state.enemies), slots.cells_of(state.transmissions)
    return _valid_word(Situation(state, enemies, transmissions))


def is_valid(state: State, action: Array) -> Array:
    """Returns whether the number is that of a valid action."""
    is_action = (action >= 0) & (action < ACTIONS)
    bit = jnp.where(is_action, action, 0).astype(jnp.uint32)
    return is_action & ((valid_word(state) >> bit) & 1 != 0)


@outlined
def _valid_word(now: Situation) -> Array:
    conditions = [*_directions(now), now.state.player.data_siphons > 0]
    conditions += [_is_valid(program, now) for program in Program]
    word = jnp.uint32(0)
    for action, condition in enumerate(conditions):
        word = word | condition.astype(jnp.uint32) << np.uint32(action)
    return word


def _directions(now: Situation) -> list[Array]:
    here = cells.at(now.state.player.cell)
    blocked = now.state.board.blocks - now.enemies
    return [(direction(here) - blocked).any() for direction in cells.DIRECTIONS]


def _is_valid(program: Program, now: Situation) -> Array:
    return can_pay_for(program, now.state) & program.is_usable(now)


def can_pay_for(program: Program, state: State) -> Array:
    """Returns whether the player owns the program and can pay for it, usable or not."""
    player = state.player
    is_owned = state.owned >> np.uint32(program.number) & 1 != 0
    is_affordable = (player.credits >= program.credits) & (player.energy >= program.energy)
    return is_owned & is_affordable
