"""PPO in one compiled function, for the interface of Gymnax before 1.0.

It uses only `reset(key, params)`, `step(key, state, action, params)` with five results, and the two
spaces. It stacks the information of all steps, relies on new games beginning automatically, and
wraps the environment in a class that forwards all other attributes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import struct

Array = jax.Array
GAMMA, LAMBDA, CLIP, ENTROPY = 0.97, 0.95, 0.2, 0.01
EPOCHS, MINIBATCHES = 2, 4


class Counting(struct.PyTreeNode):
    inner: Any
    total: Any
    length: Any


class CountReturns:
    """Adds the return and the length of the game so far to the information of each step."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    @partial(jax.jit, static_argnums=0)
    def reset(self, key: Array, params: Any = None) -> Any:
        observation, state = self._env.reset(key, params)
        return observation, Counting(state, 0.0, 0)

    @partial(jax.jit, static_argnums=0)
    def step(self, key: Array, state: Counting, action: Array, params: Any = None) -> Any:
        observation, inner, reward, done, info = self._env.step(key, state.inner, action, params)
        total, length = state.total + reward, state.length + 1
        info["return_so_far"], info["length_so_far"] = total, length
        state = Counting(inner, total * (1 - done), length * (1 - done))
        return observation, state, reward, done, info


class ActorCritic(nn.Module):
    actions: int

    @nn.compact
    def __call__(self, observation: Array) -> tuple[Array, Array]:
        hidden = nn.tanh(nn.Dense(64)(observation))
        return nn.Dense(self.actions)(hidden), nn.Dense(1)(hidden)[..., 0]


class Transition(NamedTuple):
    observation: Array
    action: Array
    likelihood: Array  # its logarithm
    value: Array
    reward: Array
    done: Array
    info: dict[str, Any]


def train(key: Array, env: Any, params: Any, envs: int, steps: int, updates: int) -> Transition:
    """Trains, and returns all transitions, with leaves [updates, steps, envs, ...]."""
    env = CountReturns(env)
    network: Any = ActorCritic(env.action_space(params).n)
    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-3))
    key, init_key, reset_key = jax.random.split(key, 3)
    weights = network.init(init_key, jnp.zeros(env.observation_space(params).shape))
    reset = jax.vmap(env.reset, in_axes=(0, None))
    observation, state = reset(jax.random.split(reset_key, envs), params)

    def play(carry: Any, _: None) -> Any:
        weights, state, observation, key = carry
        key, action_key, step_key = jax.random.split(key, 3)
        logits, value = network.apply(weights, observation)
        action = jax.random.categorical(action_key, logits)
        step = jax.vmap(env.step, in_axes=(0, 0, 0, None))
        seen, state, reward, done, info = step(
            jax.random.split(step_key, envs), state, action, params
        )
        likelihood = _pick(nn.log_softmax(logits), action)
        transition = Transition(observation, action, likelihood, value, reward, done, info)
        return (weights, state, seen, key), transition

    def update(carry: Any, _: None) -> Any:
        (weights, state, observation, key), moments = carry
        carry, played = jax.lax.scan(play, (weights, state, observation, key), None, steps)
        _, state, observation, key = carry
        advantages = _advantages(played, network.apply(weights, observation)[1])
        key, shuffle_key = jax.random.split(key)
        order = jax.random.permutation(shuffle_key, jnp.arange(steps * envs))
        order = jnp.tile(order.reshape(MINIBATCHES, -1), (EPOCHS, 1))
        # Learning needs the numbers of the transitions, but not their information.
        rows = jax.tree.map(
            lambda leaf: leaf.reshape(steps * envs, *leaf.shape[2:]),
            (played._replace(info={}), advantages),
        )

        def learn(learner: Any, minibatch: Array) -> Any:
            weights, moments = learner
            batch = jax.tree.map(lambda leaf: leaf[minibatch], rows)
            gradient = jax.grad(_loss)(weights, network, *batch)
            change, moments = optimiser.update(gradient, moments)
            return (optax.apply_updates(weights, change), moments), None

        (weights, moments), _ = jax.lax.scan(learn, (weights, moments), order)
        return ((weights, state, observation, key), moments), played

    start = ((weights, state, observation, key), optimiser.init(weights))
    _, seen = jax.lax.scan(update, start, None, updates)
    return seen


def _advantages(played: Transition, last_value: Array) -> Array:
    def back(carry: Any, step: Transition) -> Any:
        advantage, following = carry
        error = step.reward + GAMMA * following * (1 - step.done) - step.value
        advantage = error + GAMMA * LAMBDA * (1 - step.done) * advantage
        return (advantage, step.value), advantage

    start = (jnp.zeros_like(last_value), last_value)
    return jax.lax.scan(back, start, played, reverse=True)[1]


def _loss(weights: Any, network: Any, batch: Transition, advantages: Array) -> Array:
    logits, value = network.apply(weights, batch.observation)
    every = nn.log_softmax(logits)
    ratio = jnp.exp(_pick(every, batch.action) - batch.likelihood)
    scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    gain = jnp.minimum(ratio * scaled, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * scaled).mean()
    entropy = -(jnp.exp(every) * every).sum(-1).mean()
    value_loss = jnp.square(value - (advantages + batch.value)).mean()
    return 0.5 * value_loss - gain - ENTROPY * entropy


def _pick(row: Array, index: Array) -> Array:
    return jnp.take_along_axis(row, index[..., None], -1)[..., 0]
