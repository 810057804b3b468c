"""A small environment whose every number can be worked out by hand.

Each board shows a set of valid actions and one of them as the wanted one; the wanted action is
worth 1, another valid one 0, an invalid one -1. An episode ends after LENGTH steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs.metrics import PERCENT, Metric, Section
from hackmatrix.envs.protocol import Environment, Parts, Step

Array = jax.Array
ACTIONS = 6
LENGTH = 7


class Boards(struct.PyTreeNode):
    mask: Array  # bool[E, A]
    wanted: Array  # i32[E]
    time: Array  # i32[E]


class Toy(Environment):
    name = "toy"
    action_names = tuple(f"take {number}" for number in range(ACTIONS))
    observation: Mapping[str, tuple[int, ...]] = MappingProxyType(
        {"mask": (ACTIONS,), "wanted": (ACTIONS,)}
    )
    sections = (
        Section(
            "How it plays",
            (
                Metric("toy/invalid", "invalid", PERCENT),
                Metric("toy/last_wanted", "wanted at the end"),
                Metric("toy/highest_wanted", "the highest that was wanted at an end"),
            ),
        ),
    )

    def __init__(self, truncates: bool = False) -> None:
        self.truncates = self._cuts_off = truncates

    def reset(self, keys: Array) -> Boards:
        return self.boards(keys, jnp.zeros_like(keys[:, 0], jnp.int32))

    def step(self, keys: Array, states: Boards, actions: Array) -> tuple[Boards, Step]:
        is_valid = jnp.take_along_axis(states.mask, actions[:, None], 1)[:, 0]
        reward = jnp.where(is_valid, actions == states.wanted, -1).astype(jnp.float32)
        ends = states.time + 1 == LENGTH
        after = self.boards(keys, states.time + 1)
        never = jnp.zeros_like(ends)
        boards = after.replace(time=after.time * ~ends)
        return boards, Step(
            reward=reward,
            terminated=never if self._cuts_off else ends,
            truncated=ends if self._cuts_off else never,
            final=after if self._cuts_off else None,
            each_step={"toy/invalid": ~is_valid},
            each_episode={"toy/last_wanted": states.wanted},
            highest={"toy/highest_wanted": states.wanted},
        )

    def encode(self, states: Boards) -> Boards:
        return states

    def decode(self, seen: Boards) -> tuple[Parts, Array]:
        wanted = jax.nn.one_hot(seen.wanted, ACTIONS)
        return {"mask": seen.mask.astype(jnp.float32), "wanted": wanted}, seen.mask

    def boards(self, keys: Array, time: Array) -> Boards:
        def one(key: Array) -> tuple[Array, Array]:
            key = jax.random.wrap_key_data(key)
            order = jax.random.permutation(jax.random.fold_in(key, 0), ACTIONS)
            number = jax.random.randint(jax.random.fold_in(key, 1), (), 1, ACTIONS + 1)
            return order < number, jnp.argmin(order).astype(jnp.int32)

        mask, wanted = jax.vmap(one)(keys)
        return Boards(mask, wanted, time.astype(jnp.int32))
