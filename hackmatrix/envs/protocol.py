"""What the trainer asks of an environment: many boards at once, each with a key of its own."""

from __future__ import annotations

import abc
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

Array = jax.Array
# An observation, one part of its numbers beside the other: a network's first layer can take them as
# they are, and so they need not be copied into one array.
Parts = tuple[Array, ...]


class NoSuchEnvironment(ValueError):
    """A name that stands for no environment that a trainer can use; the message says why."""


class Step(struct.PyTreeNode):
    """What a step led to, on each of [E] boards.

    `final` is what was seen at the end of each episode, before the next one began; None where no
    episode is ever truncated. The rest are metrics by name: averaged over all steps, averaged over
    the steps that end an episode, and the greatest of those that end an episode.
    """

    reward: Array  # f32[E]
    terminated: Array  # bool[E]: the episode came to its own end
    truncated: Array  # bool[E]: it was cut off, and would have gone on
    final: Any
    each_step: dict[str, Array]
    each_episode: dict[str, Array]
    highest: dict[str, Array]

    @property
    def ended(self) -> Array:
        return self.terminated | self.truncated


class Environment(abc.ABC):
    """Boards [E] as one tree of arrays; pure functions of them.

    What is seen of a board (observation and mask) has a compact form, which is what a learner keeps
    until it needs the numbers.
    """

    name: str
    num_actions: int
    observation_size: int
    truncates: bool  # whether it ever cuts an episode off

    @abc.abstractmethod
    def reset(self, keys: Array) -> Any:
        """New boards [E], one a key."""

    @abc.abstractmethod
    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        """Takes an action on each board; where that ends an episode, the next one begins."""

    @abc.abstractmethod
    def encode(self, states: Any) -> Any:
        """What is seen of the boards, in its compact form (leaves [E, ...])."""

    @abc.abstractmethod
    def decode(self, seen: Any) -> tuple[Parts, Array]:
        """The observation (f32[E, N] in parts) and the mask of valid actions bool[E, A] of what was
        seen.
        """

    def observe(self, states: Any) -> Array:
        """f32[E, N]: the observation."""
        return jnp.concatenate(self.decode(self.encode(states))[0], axis=-1)

    def mask(self, states: Any) -> Array:
        """bool[E, A]: which actions are valid."""
        return self.decode(self.encode(states))[1]
