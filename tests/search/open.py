"""Variants of the toy environment that can be searched."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix.envs.protocol import Step
from tests.envs.toy import ACTIONS, Boards, Toy


class Open(Toy):
    """Nothing is hidden."""

    def redrawn(self, keys: jax.Array, states: Boards) -> Boards:
        return states


class Even(Open):
    """Every action is valid, and none is better than another."""

    def boards(self, keys: jax.Array, time: jax.Array) -> Boards:
        mask = jnp.ones((*time.shape, ACTIONS), bool)
        return Boards(mask, jnp.full_like(time, -1), time)


class Veiled(Toy):
    """The player does not see which of the valid actions is wanted."""

    def redrawn(self, keys: jax.Array, states: Boards) -> Boards:
        weights = jnp.where(states.mask, 0.0, -jnp.inf)
        wanted = jax.vmap(jax.random.categorical)(jax.random.wrap_key_data(keys), weights)
        return states.replace(wanted=wanted.astype(jnp.int32))

    def decode(self, seen: Boards) -> Any:
        parts, mask = super().decode(seen)
        return {**parts, "wanted": jnp.zeros_like(parts["wanted"])}, mask


class Coins(Veiled):
    """Half of the split key decides which of two actions is wanted; no episode ends."""

    def boards(self, keys: jax.Array, time: jax.Array) -> Boards:
        halves = jax.vmap(jax.random.split)(jax.random.wrap_key_data(keys))
        mask = jnp.broadcast_to(jnp.arange(ACTIONS) < 2, (*time.shape, ACTIONS))
        wanted = jax.vmap(jax.random.bernoulli)(halves[:, 1])
        return Boards(mask, wanted.astype(jnp.int32), jnp.zeros_like(time))


class DerivedKeys(Veiled):
    """A step is worth 100 if its key is one of those that the key before it splits into."""

    def reset(self, keys: jax.Array) -> Any:
        return super().reset(keys), keys

    def step(self, keys: jax.Array, states: Any, actions: jax.Array) -> tuple[Any, Step]:
        boards, last = states
        after, step = super().step(keys, boards, actions)
        derived = jax.vmap(lambda key: jax.random.split(key, ACTIONS))(
            jax.random.wrap_key_data(last)
        )
        is_derived = (jax.random.key_data(derived) == keys[:, None]).all(-1).any(-1)
        return (after, keys), step.replace(reward=jnp.where(is_derived, 100.0, 0.0))

    def encode(self, states: Any) -> Boards:
        return super().encode(states[0])

    def redrawn(self, keys: jax.Array, states: Any) -> Any:
        return super().redrawn(keys, states[0]), keys
