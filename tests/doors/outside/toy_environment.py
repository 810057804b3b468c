"""An environment from outside the package: a corridor whose right end is the goal."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs.metrics import PERCENT, Metric, Section
from hackmatrix.envs.protocol import Environment, Parts, Step

Array = jax.Array
PATIENCE = 20


class Boards(struct.PyTreeNode):
    place: Array  # i32[E]
    time: Array  # i32[E]


class Corridor(Environment):
    """Each step costs 0.1, the goal pays 2; an episode is truncated after PATIENCE steps."""

    action_names = ("left", "right")
    truncates = True
    sections = (Section("How it plays", (Metric("corridor/reached", "reached", PERCENT),)),)

    def __init__(self, length: int = 6) -> None:
        self._length = length
        self.observation = {"place": (length,)}

    def reset(self, keys: Array) -> Boards:
        zeros = jnp.zeros_like(keys[:, 0], jnp.int32)
        return Boards(zeros, zeros)

    def step(self, keys: Array, states: Boards, actions: Array) -> tuple[Boards, Step]:
        place = jnp.clip(states.place + 2 * actions - 1, 0, self._length - 1)
        reached, timed_out = place == self._length - 1, states.time + 1 == PATIENCE
        ended = reached | timed_out
        after = Boards(place, states.time + 1)
        return jax.tree.map(lambda leaf: jnp.where(ended, 0, leaf), after), Step(
            reward=2.0 * reached - 0.1,
            terminated=reached,
            truncated=timed_out & ~reached,
            final=place,
            each_step={},
            each_episode={"corridor/reached": reached},
            highest={},
        )

    def encode(self, states: Boards) -> Array:
        return states.place

    def decode(self, seen: Array) -> tuple[Parts, Array]:
        mask = jnp.ones((*seen.shape, 2), bool)
        return {"place": jax.nn.one_hot(seen, self._length)}, mask
