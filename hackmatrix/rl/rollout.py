"""Rollouts: steps of the current policy on all boards, as batches for the algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs import Environment
from hackmatrix.envs.protocol import Parts, Shaping, Step
from hackmatrix.parallel import together, varying
from hackmatrix.rl import distributions, tally
from hackmatrix.rl.draws import Purpose, key_for, key_of_each
from hackmatrix.rl.tally import Tally

Array = jax.Array
# Boards whose games are cut off at a time: one of so many, but no fewer than these.
_RESTARTED_OF, _FEWEST_RESTARTED = 32, 32
# Logits f32[E, A] and values f32[E], in units of reward, of observations [E].
Evaluate = Callable[[Parts], tuple[Array, Array]]
# What to do at a step of this number: given the players, and what is seen of their boards.
Decide = Callable[[Array, "Players", Any], "Decision"]


class Players(struct.PyTreeNode):
    """Boards under way [E], each with its number among all boards of all devices."""

    boards: Any
    number: Array  # u32[E]
    episode_return: Array  # f32[E]: of the episode so far
    episode_length: Array  # f32[E]


class UpdateKey(struct.PyTreeNode):
    """What the draws of an update are keyed by, besides their purpose."""

    key: Array  # of the seed
    update: Array | int


class Decision(struct.PyTreeNode):
    """Actions for boards [E], and what is known of them. `better` is the policy that was found by
    looking ahead; None where nobody did.
    """

    action: Array  # i32[E]
    log_prob: Array  # f32[E]: of the action, by the network
    value: Array  # f32[E]: of the board, in units of reward
    better: Array | None = None  # f32[E, A]: probabilities


class Batch(struct.PyTreeNode):
    """What was played: leaves [T, E, ...]. `seen` is what the action was chosen from. By `missed`
    returns are bootstrapped where an episode was truncated.
    """

    seen: Any
    action: Array  # i32
    log_prob: Array
    value: Array
    better: Array | None
    reward: Array
    shaping: Shaping | None  # f32; None where the environment has no potential
    missed: Array | None  # the value at the end of a truncated episode; None if none ever is
    ended: Array  # bool
    last_value: Array  # [E]: of what is seen after the last step


def new_players(env: Environment, key: Array, numbers: Array) -> Players:
    """New games, one for each number [E]."""
    return _players(env, key_for(key, Purpose.RESET), numbers)


def later_players(env: Environment, update_key: UpdateKey, numbers: Array) -> Players:
    """New games in the midst of a run, before an update: others than those it began with."""
    return _players(env, key_for(update_key.key, Purpose.NEW_GAMES, update_key.update), numbers)


def _players(env: Environment, key: Array, numbers: Array) -> Players:
    keys = key_of_each(key, numbers)
    nothing = jnp.zeros_like(numbers, jnp.float32)
    return Players(env.reset(jax.random.key_data(keys)), numbers, nothing, nothing)


def kind_of_step(env: Environment, players: Players) -> Step:
    """What a step of these boards will tell: its shapes, types and names, without a value."""

    def step(players: Players) -> Step:
        keys = jnp.stack([players.number, players.number], axis=-1)
        outcome = env.step(keys, players.boards, players.number.astype(jnp.int32))[1]
        return varying.like(players.number, outcome)

    kind: Step = jax.eval_shape(step, players)
    return kind


def step_keys(update_key: UpdateKey, step: Array | int, numbers: Array) -> tuple[Array, Array]:
    """For a step, of all boards or of each, the keys [E] that actions are drawn with and (raw ones)
    those that decide what happens.
    """
    act = _keys(update_key, Purpose.ACT, step, numbers)
    return act, jax.random.key_data(_keys(update_key, Purpose.STEP, step, numbers))


def planning_keys(update_key: UpdateKey, step: Array | int, numbers: Array) -> Array:
    """The keys [E] that a step, of all boards or of each, is planned with."""
    return _keys(update_key, Purpose.PLAN, step, numbers)


def _keys(update_key: UpdateKey, purpose: Purpose, step: Array | int, numbers: Array) -> Array:
    return key_of_each(key_for(update_key.key, purpose, update_key.update, step), numbers)


def collect(
    env: Environment,
    evaluate: Evaluate,
    update_key: UpdateKey,
    num_steps: int,
    players: Players,
    counted: Tally,
) -> tuple[Players, Batch, Tally]:
    """Plays so many steps on each board, with actions drawn from the policy."""

    def draw(step: Array, players: Players, seen: Any) -> Decision:
        observation, mask = env.decode(seen)
        logits, value = evaluate(observation)
        choice = distributions.masked(logits, mask)
        act, _ = step_keys(update_key, step, players.number)
        action = distributions.sample(choice, act)
        return Decision(action, choice.log_prob(action), value)

    return collect_decided(env, evaluate, draw, update_key, num_steps, players, counted)


def collect_decided(
    env: Environment,
    evaluate: Evaluate,
    decide: Decide,
    update_key: UpdateKey,
    num_steps: int,
    players: Players,
    counted: Tally,
) -> tuple[Players, Batch, Tally]:
    """Plays so many steps on each board, with actions that are decided on in any way."""

    def one(
        carry: tuple[Players, Any, Tally], step: Array
    ) -> tuple[tuple[Players, Any, Tally], dict[str, Any]]:
        players, seen, counted = carry
        decided = varying.like(players.number, decide(step, players, seen))
        _, happen = step_keys(update_key, step, players.number)
        stepped = varying.like(
            players.number, env.step_and_encode(happen, players.boards, decided.action)
        )
        total = players.episode_return + stepped[1].reward
        length = players.episode_length + 1
        moment = update_key, step, players.number
        (boards, outcome, next_seen), missed = _cut_off(env, evaluate, moment, stepped, length)
        going_on = ~outcome.ended
        played = {
            "seen": seen,
            "action": decided.action,
            "log_prob": decided.log_prob,
            "value": decided.value,
            "better": decided.better,
            "reward": outcome.reward,
            "shaping": outcome.shaping,
            "missed": missed,
            "ended": outcome.ended,
        }
        players = players.replace(
            boards=boards,
            episode_return=jnp.where(going_on, total, 0),
            episode_length=jnp.where(going_on, length, 0),
        )
        return (players, next_seen, tally.add(counted, outcome, total, length)), played

    steps = jnp.arange(num_steps, dtype=jnp.uint32)
    carry = players, varying.like(players.number, env.encode(players.boards)), counted
    if env.is_carried_together:
        carry, played = together.scan(one, carry, steps, players.number.size)
    else:
        carry, played = jax.lax.scan(one, carry, steps)
    players, last_seen, counted = carry
    last_value = varying.like(players.number, evaluate(env.decode(last_seen)[0])[1])
    return players, Batch(**played, last_value=last_value), counted


def _cut_off(
    env: Environment,
    evaluate: Evaluate,
    moment: tuple[UpdateKey, Array, Array],
    stepped: tuple[Any, Step, Any],
    length: Array,
) -> tuple[tuple[Any, Step, Any], Array | None]:
    """What a step of games of this length f32[E] led to, with new games in the place of those that
    last too long; and what episodes that were cut off were still worth, f32[E], which is None where
    none ever is.
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
    """The boards with new games in the place of those that are late, bool[E]; what is seen of them;
    and what the late ones were worth, f32[E], 0 for the others. Few are late at a time, so they are
    gathered for this.
    """
    update_key, step, numbers = moment
    key = key_for(update_key.key, Purpose.CUT_OFF, update_key.update, step)
    at_a_time = min(late.size, max(_FEWEST_RESTARTED, late.size // _RESTARTED_OF))

    def restart_some(carry: tuple[Any, Any, Array, Array]) -> tuple[Any, Any, Array, Array]:
        (chosen,) = jnp.nonzero(carry[-1], size=at_a_time, fill_value=late.size)
        some_seen, some = jax.tree.map(
            lambda leaf: leaf.at[chosen].get(mode="clip"), (carry[1], numbers)
        )
        value = evaluate(env.decode(some_seen)[0])[1]
        fresh = varying.like(numbers, env.reset(jax.random.key_data(key_of_each(key, some))))
        fresh_seen = varying.like(numbers, env.encode(fresh))
        done = jnp.zeros_like(chosen, bool)
        return jax.tree.map(
            lambda old, new: old.at[chosen].set(new, mode="drop"),
            carry,
            (fresh, fresh_seen, value, done),
        )

    carry = boards, seen, jnp.zeros_like(late, jnp.float32), late
    boards, seen, worth, _ = jax.lax.while_loop(lambda carry: carry[-1].any(), restart_some, carry)
    return boards, seen, worth
