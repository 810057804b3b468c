"""Rollouts: steps of the current policy on all boards, as batches for the algorithm."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs import Environment
from hackmatrix.envs.protocol import Parts, Shaping, Step
from hackmatrix.parallel import packed_scan, varying
from hackmatrix.rl import distributions
from hackmatrix.rl import tally as tallies
from hackmatrix.rl.draws import Purpose, fold_in, key_for
from hackmatrix.rl.tally import Tally

Array = jax.Array
# Boards whose games are cut off at a time: one of so many, but no fewer than these.
_RESTARTED_OF, _FEWEST_RESTARTED = 32, 32
# Logits f32[E, A] and values f32[E], in units of reward, of observations [E].
Evaluate = Callable[[Parts], tuple[Array, Array]]
# What to do at a step of this number: given the players, and what is seen of their boards.
Decide = Callable[[Array, "Players", Any], "PolicyOutput"]
# What a step is given by the one before: the players, what is seen of their boards, the tally.
_Carry = tuple["Players", Any, Tally]


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

    def each(self, purpose: Purpose, step: Array | int, numbers: Array) -> Array:
        """The keys [E] of a purpose for boards (or groups of them) of these numbers, at a step (or
        epoch) of all or of each.
        """
        return fold_in(key_for(self.key, purpose, self.update, step), numbers)


class PolicyOutput(struct.PyTreeNode):
    """Actions for boards [E], and what is known of them."""

    action: Array  # i32[E]
    log_prob: Array  # f32[E]: of the action, by the network
    value: Array  # f32[E]: of the board, in units of reward
    # f32[E, A]: the probabilities that were found by looking ahead; None where nobody did.
    search_policy: Array | None = None


class Batch(struct.PyTreeNode):
    """What was played: leaves [T, E, ...]. `seen` is what the action was chosen from. By `missed`
    returns are bootstrapped where an episode was truncated.
    """

    seen: Any
    action: Array  # i32
    log_prob: Array
    value: Array
    search_policy: Array | None
    reward: Array
    shaping: Shaping | None  # f32; None where the environment has no potential
    missed: Array | None  # the value at the end of a truncated episode; None if none ever is
    ended: Array  # bool
    last_value: Any  # f32[E]: of what is seen after the last step; None of a step alone


def new_players(env: Environment, key: Array, numbers: Array) -> Players:
    """New games, one for each number [E]."""
    return _players(env, key_for(key, Purpose.RESET), numbers)


def later_players(env: Environment, update_key: UpdateKey, numbers: Array) -> Players:
    """New games in mid-run; keyed by the update, so they differ from the run's first ones."""
    return _players(env, key_for(update_key.key, Purpose.NEW_GAMES, update_key.update), numbers)


def _players(env: Environment, key: Array, numbers: Array) -> Players:
    keys = fold_in(key, numbers)
    nothing = jnp.zeros_like(numbers, jnp.float32)
    return Players(env.reset(jax.random.key_data(keys)), numbers, nothing, nothing)


def step_spec(env: Environment, players: Players) -> Step:
    """What a step of these boards will tell: its shapes, types and names, without a value."""

    def step(players: Players) -> Step:
        keys = jnp.stack([players.number, players.number], axis=-1)
        outcome = env.step(keys, players.boards, players.number.astype(jnp.int32))[1]
        return varying.like(players.number, outcome)

    kind: Step = jax.eval_shape(step, players)
    return kind


def collect(
    env: Environment,
    evaluate: Evaluate,
    update_key: UpdateKey,
    num_steps: int,
    players: Players,
    tally: Tally,
) -> tuple[Players, Batch, Tally]:
    """Plays so many steps on each board, with actions drawn from the policy."""

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
    """Plays so many steps on each board, with actions that are decided on in any way."""
    play = functools.partial(_one_step, env, evaluate, decide, update_key)
    steps = jnp.arange(num_steps, dtype=jnp.uint32)
    carry = players, varying.like(players.number, env.encode(players.boards)), tally
    if env.is_carried_together:
        carry, batch = packed_scan.scan(play, carry, steps, players.number.size)
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
    """A step on each board: what is carried to the next one, and the step's share of a batch."""
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
    """Applies truncation: games past `episode_limit` are reset and marked truncated; also the
    bootstrap values f32[E] of truncated episodes (None if none can be).
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
    boards, seen, worth, _ = jax.lax.while_loop(lambda carry: carry[-1].any(), restart_some, carry)
    return boards, seen, worth
