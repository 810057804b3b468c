"""Playing: what the policy does, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs import Environment
from hackmatrix.envs.protocol import Parts, Step
from hackmatrix.ppo import policy, tally
from hackmatrix.ppo.draws import Purpose, key_for, key_of_each
from hackmatrix.ppo.tally import Tally

Array = jax.Array
# Logits and values (in units of reward) of observations.
Apply = Callable[[Parts], tuple[Array, Array]]


class Players(struct.PyTreeNode):
    """Boards under way [E], each with its number among all boards of all devices."""

    boards: Any
    number: Array  # u32[E]
    episode_return: Array  # f32[E]: of the episode so far
    episode_length: Array  # f32[E]


class Batch(struct.PyTreeNode):
    """What was played: leaves [T, E, ...]. `seen` is what the action was chosen from."""

    seen: Any
    action: Array  # i32
    log_prob: Array
    value: Array
    reward: Array  # with the value of what a truncated episode missed
    ended: Array  # bool


def begin(env: Environment, key: Array, numbers: Array) -> Players:
    """New games, one for each number [E]."""
    keys = key_of_each(key_for(key, Purpose.RESET), numbers)
    nothing = jnp.zeros_like(numbers, jnp.float32)
    return Players(env.reset(jax.random.key_data(keys)), numbers, nothing, nothing)


def kind_of_step(env: Environment, players: Players) -> Step:
    """What a step of these boards will tell: its shapes, types and names, without a value."""

    def step(players: Players) -> Step:
        keys = jnp.stack([players.number, players.number], axis=-1)
        return env.step(keys, players.boards, players.number.astype(jnp.int32))[1]

    kind: Step = jax.eval_shape(step, players)
    return kind


def step_keys(
    key: Array, update: Array | int, number: Array, players: Players
) -> tuple[Array, Array]:
    """For a step of an update the keys [E] that actions are drawn with, and (raw ones) those that
    decide what happens.
    """
    act, happen = (
        key_of_each(key_for(key, purpose, update, number), players.number)
        for purpose in (Purpose.ACT, Purpose.STEP)
    )
    return act, jax.random.key_data(happen)


def collect(
    env: Environment,
    apply: Apply,
    players: Players,
    key: Array,
    update: Array,
    num_steps: int,
    gamma: float,
    counted: Tally,
) -> tuple[Players, Batch, Array, Tally]:
    """Plays so many steps on each board; also gives the values [E] of what is seen in the end."""

    def step(carry: tuple[Players, Tally], number: Array) -> tuple[tuple[Players, Tally], Batch]:
        players, counted = carry
        act, happen = step_keys(key, update, number, players)
        seen = env.encode(players.boards)
        observation, mask = env.decode(seen)
        logits, value = apply(observation)
        choice = policy.masked(logits, mask)
        action = policy.sample(choice, act)
        boards, outcome = env.step(happen, players.boards, action)
        reward = outcome.reward
        if env.truncates:
            missed = apply(env.decode(outcome.final)[0])[1]
            reward = reward + gamma * jnp.where(outcome.truncated, missed, 0)
        total = players.episode_return + outcome.reward
        length = players.episode_length + 1
        going_on = ~outcome.ended
        batch = Batch(seen, action, choice.log_prob(action), value, reward, outcome.ended)
        players = players.replace(
            boards=boards, episode_return=total * going_on, episode_length=length * going_on
        )
        return (players, tally.add(counted, outcome, total, length)), batch

    steps = jnp.arange(num_steps, dtype=jnp.uint32)
    (players, counted), batch = jax.lax.scan(step, (players, counted), steps)
    last_values = apply(env.decode(env.encode(players.boards))[0])[1]
    return players, batch, last_values, counted
