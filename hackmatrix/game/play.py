"""Playing: new games, and one action with all that follows from it.

The public functions on one board are batches of one: the rules are written once, for a batch.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import few, history, moves, programs, reward, slots, stages
from hackmatrix.game.outline import outlined
from hackmatrix.game.randomness import Key, as_key
from hackmatrix.game.siphon import better_elsewhere, siphon
from hackmatrix.game.state import (
    ACTIONS, FIRST_PROGRAM, HISTORY_DEPTH, SIPHON, STAGES, WAIT, WARP, Effects, Enemies,
    Outcome, State, Transmissions,
)  # fmt: skip
from hackmatrix.game.turn import enemy_turn
from hackmatrix.game.valid import valid_word

Array = jax.Array
NO_ACTION = -1


def reset(key: Array, history_depth: int = HISTORY_DEPTH) -> State:
    """A new game."""
    return _only(reset_batch(key[None], history_depth))


def reset_batch(keys: Array, history_depth: int = HISTORY_DEPTH) -> State:
    """New games [E], one a key."""
    each = as_key(keys)
    state = stages.new_game(each, history.empty(history_depth, each.low.shape))
    return stages.begin_stages(state, each, jnp.ones_like(state.show))


def restart_batch(keys: Array, states: State, done: Array) -> State:
    """New games on the boards [E] that are done, as `reset_batch` begins them; the others stay."""

    def begin(boards: tuple[Key, State]) -> tuple[Key, State]:
        key, state = boards
        depth = state.history.snapshots.shape[-2]
        fresh = stages.new_game(key, history.empty(depth, key.low.shape))
        return key, stages.generate(fresh, key)

    width = max(32, done.shape[0] // 32)
    return few.apply(done, begin, (as_key(keys), states), width)[1]


def step(key: Array, state: State, action: Array) -> tuple[State, Outcome]:
    """Takes an action (an integer from 0 to 27). An invalid one changes nothing and ends the game."""
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state)
    state, outcome = step_batch(key[None], batch, jnp.asarray(action)[None])
    return _only(state), _only(outcome)


def step_batch(keys: Array, states: State, actions: Array) -> tuple[State, Outcome]:
    """Takes an action on each of [E] boards."""
    before, key = states, as_key(keys)
    action = jnp.asarray(actions).astype(jnp.int32)
    in_range = (action >= 0) & (action < ACTIONS)
    bit = jnp.where(in_range, action, 0).astype(jnp.uint32)
    valid = in_range & ((valid_word(before) >> bit) & 1 != 0)
    action = jnp.where(valid, action, NO_ACTION)

    state, effects = act(before, key, action)
    completed = is_completed(before, state, action)
    state = stages.complete_stage(state, completed)
    takes_turn = (action >= 0) & ((action < FIRST_PROGRAM) | (action == WAIT)) & ~completed
    state = enemy_turn(state, key, takes_turn)
    died = takes_turn & (state.player.hp == 0)
    won = completed & (before.stage == STAGES)

    units = reward.reward_units(
        before, state, action=action, valid=valid, completed=completed, died=died,
        effects=effects, closer=_closer(before, state, completed),
    )  # fmt: skip
    total, parts = reward.as_reward(units)
    state = stages.begin_stages(state, key, completed & ~won)
    return state, Outcome(
        reward=total, parts=parts, done=won | died | ~valid, invalid=~valid,
        stage_completed=completed, won=won, died=died,
    )  # fmt: skip


def act(state: State, key: Key, action: Array) -> tuple[State, Effects]:
    """The player's action alone."""
    enemies, transmissions = state.enemies, state.transmissions
    is_move = (action >= 0) & (action < SIPHON)
    state, effects = moves.move(state, is_move, jnp.where(is_move, action, 0))
    width = max(32, action.shape[0] // 16)
    state, _, _, effects = few.apply(
        action >= SIPHON, _act_specially, (state, key, action, effects), width
    )
    lost_some = (state.enemies.present != enemies.present) | (
        state.transmissions.present != transmissions.present
    )
    lists = few.apply(lost_some, _close_ranks, (state.enemies, state.transmissions), width)
    return state.replace(enemies=lists[0], transmissions=lists[1]), effects


def _act_specially(
    boards: tuple[State, Key, Array, Effects],
) -> tuple[State, Key, Array, Effects]:
    """A siphon or a program."""
    state, key, action, effects = boards
    siphons = action == SIPHON
    missed_credits, missed_energy = better_elsewhere(state)
    state = siphon(state, siphons)
    state, killed = programs.run(state, key, action)
    effects = effects.replace(
        kills=killed,
        missed=jnp.where(siphons, missed_credits + missed_energy, 0),
    )
    return state, key, action, effects


def is_completed(before: State, after: State, action: Array) -> Array:
    """Whether the action completed the stage: a walk onto an exit cell, or a warp to the exit position."""
    walked = (action >= 0) & (action < SIPHON) & (before.player.cell != after.player.cell)
    on_exit = walked & after.board.exit.has(after.player.cell)
    return on_exit | ((action == WARP) & (after.player.cell == after.exit_cell))


@outlined
def _close_ranks(lists: tuple[Enemies, Transmissions]) -> tuple[Enemies, Transmissions]:
    """Clears the slots of the dead and fills the holes they left."""
    enemies, transmissions = lists
    return (
        slots.squeeze(enemies, enemies.present),
        slots.squeeze(transmissions, transmissions.present),
    )


def _closer(before: State, after: State, completed: Array) -> Array:
    """By how many steps the exit came nearer; never negative."""
    distance = jnp.where(completed, 0, reward.distance_to_exit(after))
    return jnp.maximum(reward.distance_to_exit(before) - distance, 0)


def _only(batch):
    return jax.tree.map(lambda leaf: leaf[0], batch)
