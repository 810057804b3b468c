"""Rollouts: steps of the current policy on all boards, collected as batches for the algorithm."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs import Environment
from hackmatrix.envs.protocol import Parts, Shaping, Step
from hackmatrix.parallel import boards_last, packed_scan, varying
from hackmatrix.rl import distributions
from hackmatrix.rl import tally as tallies
from hackmatrix.rl.draws import Purpose, fold_in, key_for
from hackmatrix.rl.tally import Tally

Array = jax.Array
# How many truncated boards are restarted in one pass: 1/32 of all boards, but at least 32.
_RESTARTED_OF, _FEWEST_RESTARTED = 32, 32
# From observations [E] to logits f32[E, A] and values f32[E] in units of reward.
Evaluate = Callable[[Parts], tuple[Array, Array]]
# Chooses actions at a step, from its index, the players and their encoded observations.
Decide = Callable[[Array, "Players", Any], "PolicyOutput"]
# The carry of the scan over steps: the players, their encoded observations, the tally.
_Carry = tuple["Players", Any, Tally]


class Players(struct.PyTreeNode):
    """Boards [E] with their games under way."""

    boards: Any
    number: Array  # u32[E]: among all boards of all devices
    episode_return: Array  # f32[E]: so far
    episode_length: Array  # f32[E]: so far


class UpdateKey(struct.PyTreeNode):
    """What the keys of an update's draws are derived from, besides their purpose."""

    key: Array  # of the seed
    update: Array | int

    def each(self, purpose: Purpose, step: Array | int, numbers: Array) -> Array:
        """Returns the keys [E] of a purpose, for boards (or groups) with these numbers. `step` is
        the step (or epoch): one for all of them, or one for each.
        """
        return fold_in(key_for(self.key, purpose, self.update, step), numbers)


class PolicyOutput(struct.PyTreeNode):
    """Actions for boards [E], and the outputs that they were chosen from."""

    action: Array  # i32[E]
    log_prob: Array  # f32[E]: of the action under the network's policy
    value: Array  # f32[E]: of the board, in units of reward
    search_policy: Array | None = None  # f32[E, A]: probabilities; None without a search


class Batch(struct.PyTreeNode):
    """A rollout: leaves [T, E, ...]. Bootstrap with `missed` where an episode was truncated."""

    seen: Any  # the encoded observation and mask that the action was chosen from
    action: Array  # i32
    log_prob: Array
    value: Array
    search_policy: Array | None
    reward: Array
    shaping: Shaping | None  # f32; None where the environment has no potential
    # The value at the end of a truncated episode, else 0; None if no episode is ever truncated.
    missed: Array | None
    ended: Array  # bool
    last_value: Any  # f32[E]: of the observation after the last step; None in a single step's batch


def new_players(env: Environment, key: Array, numbers: Array) -> Players:
    """Returns players of new games, one for each number [E]."""
    return _players(env, key_for(key, Purpose.RESET), numbers)


def later_players(env: Environment, update_key: UpdateKey, numbers: Array) -> Players:
    """Like `new_players`, but in mid-run: keyed by the update too, so that the games are others."""
    return _players(env, key_for(update_key.key, Purpose.NEW_GAMES, update_key.update), numbers)


def _players(env: Environment, key: Array, numbers: Array) -> Players:
    keys = fold_in(key, numbers)
    nothing = jnp.zeros_like(numbers, jnp.float32)
    return Players(env.reset(jax.random.key_data(keys)), numbers, nothing, nothing)


def step_spec(env: Environment, players: Players) -> Step:
    """Returns the `Step` of these boards as shapes and dtypes (`jax.eval_shape`)."""

    def step(players: Players) -> Step:
        keys = jnp.stack([players.number, players.number], axis=-1)
        outcome = env.step(keys, players.boards, players.number.astype(jnp.int32))[1]
        return varying.like(players.number, outcome)

    return jax.eval_shape(step, players)


def collect(
    env: Environment,
    evaluate: Evaluate,
    update_key: UpdateKey,
    num_steps: int,
    players: Players,
    tally: Tally,
) -> tuple[Players, Batch, Tally]:
    """Plays `num_steps` steps on each board, with actions drawn from the policy."""

    def draw(step: Array, players: Players, seen: Any) -> PolicyOutput:
        observation, mask = env.decode(seen)
        logits, value = evaluate(observation)
        choice = distributions.masked(logits, mask)
        keys = update_key.each(Purpose.ACT, step, players.number)
        action = distributions.sample(choice, keys)
        return PolicyOutput(action, choice.log_prob(action), value)

    return collect_decided(env, evaluate, draw, update_key, num_steps, players, tally)


def collect_decided(
    env: Environment,
    evaluate: Evaluate,
    decide: Decide,
    update_key: UpdateKey,
    num_steps: int,
    players: Players,
    tally: Tally,
) -> tuple[Players, Batch, Tally]:
    """Plays `num_steps` steps on each board, with actions that `decide` chooses."""
    play = functools.partial(_one_step, env, evaluate, decide, update_key)
    steps = jnp.arange(num_steps, dtype=jnp.uint32)
    carry = players, varying.like(players.number, env.encode(players.boards)), tally
    if env.packs_small_arrays:
        carry, batch = packed_scan.scan(play, carry, steps, players.number.size)
    elif env.puts_boards_last:
        carry, batch = boards_last.scan(play, carry, steps, players.number.size)
    else:
        carry, batch = jax.lax.scan(play, carry, steps)
    players, last_seen, tally = carry
    last_value = varying.like(players.number, evaluate(env.decode(last_seen)[0])[1])
    return players, batch.replace(last_value=last_value), tally


def _one_step(
    env: Environment,
    evaluate: Evaluate,
    decide: Decide,
    update_key: UpdateKey,
    carry: _Carry,
    step: Array,
) -> tuple[_Carry, Batch]:
    """Plays a step on each board; returns the carry, and the batch [E] of this step."""
    players, seen, tally = carry
    output = varying.like(players.number, decide(step, players, seen))
    keys = jax.random.key_data(update_key.each(Purpose.STEP, step, players.number))
    stepped = varying.like(players.number, env.step_and_encode(keys, players.boards, output.action))
    total = players.episode_return + stepped[1].reward
    length = players.episode_length + 1
    moment = update_key, step, players.number
    (boards, outcome, next_seen), missed = _cut_off(env, evaluate, moment, stepped, length)
    batch = Batch(
        seen=seen,
        action=output.action,
        log_prob=output.log_prob,
        value=output.value,
        search_policy=output.search_policy,
        reward=outcome.reward,
        shaping=outcome.shaping,
        missed=missed,
        ended=outcome.ended,
        last_value=None,
    )
    going_on = ~outcome.ended
    players = players.replace(
        boards=boards,
        episode_return=jnp.where(going_on, total, 0),
        episode_length=jnp.where(going_on, length, 0),
    )
    return (players, next_seen, tallies.add(tally, outcome, total, length)), batch


def _cut_off(
    env: Environment,
    evaluate: Evaluate,
    moment: tuple[UpdateKey, Array, Array],
    stepped: tuple[Any, Step, Any],
    length: Array,
) -> tuple[tuple[Any, Step, Any], Array | None]:
    """Applies truncation: restarts games that reach `episode_limit` and marks them truncated. Also
    returns the bootstrap values f32[E] of truncated episodes, or None if there can be none.
    """
    boards, outcome, seen = stepped
    missed = None
    if env.truncates:
        outcome = outcome.replace(truncated=outcome.cut_off)
        final = evaluate(env.decode(outcome.final)[0])[1]
        missed = jnp.where(outcome.truncated, final, 0)
    if not env.episode_limit:
        return (boards, outcome, seen), missed
    late = (length >= env.episode_limit) & ~outcome.ended
    boards, seen, value = _restarted(env, evaluate, moment, boards, seen, late)
    missed = value if missed is None else missed + value
    return (boards, outcome.replace(truncated=outcome.truncated | late), seen), missed


def _restarted(
    env: Environment,
    evaluate: Evaluate,
    moment: tuple[UpdateKey, Array, Array],
    boards: Any,
    seen: Any,
    late: Array,
) -> tuple[Any, Any, Array]:
    """Restarts the boards where `late` bool[E]. Returns the boards, their encoded observations, and
    the values f32[E] of the late boards before the restart, 0 elsewhere. Usually few boards are
    late, so these are gathered and restarted some at a time.
    """
    update_key, step, numbers = moment
    at_a_time = min(late.size, max(_FEWEST_RESTARTED, late.size // _RESTARTED_OF))

    def restart_some(carry: tuple[Any, Any, Array, Array]) -> tuple[Any, Any, Array, Array]:
        (chosen,) = jnp.nonzero(carry[-1], size=at_a_time, fill_value=late.size)
        some_seen, some = jax.tree.map(
            lambda leaf: leaf.at[chosen].get(mode="clip"), (carry[1], numbers)
        )
        value = evaluate(env.decode(some_seen)[0])[1]
        keys = jax.random.key_data(update_key.each(Purpose.CUT_OFF, step, some))
        fresh = varying.like(numbers, env.reset(keys))
        fresh_seen = varying.like(numbers, env.encode(fresh))
        done = jnp.zeros_like(chosen, bool)
        return jax.tree.map(
            lambda old, new: old.at[chosen].set(new, mode="drop"),
            carry,
            (fresh, fresh_seen, value, done),
        )

    carry = boards, seen, jnp.zeros_like(late, jnp.float32), late
    boards, seen, values, _ = jax.lax.while_loop(lambda carry: carry[-1].any(), restart_some, carry)
    return boards, seen, values
