"""The protocol of environments: many boards at once, each with a random key of its own."""

from __future__ import annotations

import abc
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self, TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs.metrics import Metric, Range, Section, Trend
from hackmatrix.errors import UserError

Array = jax.Array
# The named parts of observations [E, ...], by name: their order is that of `observation`.
Parts = dict[str, Array]
Kind = TypeVar("Kind", bound="Environment")


class Shaping(struct.PyTreeNode):
    """How a step changed a potential of the boards [E], f32: `before` and `after` it (0 where the
    episode came to its end), and `rewarded`, the part of the reward that is not learned from with
    it: what stands for that change, and what could be earned again and again. Environments with
    possessions tell how many were `gained`, less those that were lost (0 where the episode ended).
    """

    before: Array
    after: Array
    rewarded: Array
    gained: Array | None = None


class Step(struct.PyTreeNode):
    """What a step led to, on each of [E] boards.

    `final` is what was seen at the end of each episode, before the next one began; None where no
    episode is ever truncated. The rest are metrics by tag: averaged over all steps, averaged over
    the steps that end an episode, and the greatest of those that end an episode.
    """

    reward: Array  # f32[E]
    terminated: Array  # bool[E]: the episode came to its own end
    truncated: Array  # bool[E]: it was cut off, and would have gone on
    final: Any
    each_step: dict[str, Array]
    each_episode: dict[str, Array]
    highest: dict[str, Array]
    shaping: Shaping | None = None  # of environments that have a potential

    @property
    def ended(self) -> Array:
        return self.terminated | self.truncated

    @property
    def cut_off(self) -> Array:
        """Where the episode would have gone on. At the last action that is left, some environments
        say both of an episode that came to its own end.
        """
        return self.truncated & ~self.terminated


@dataclass(frozen=True)
class OlderLayout:
    """States as an earlier version of an environment laid them out, which checkpoints may hold:
    what to restore in the place of today's states (given as arrays or as what is known of them),
    and how today's are made of it (to be compiled).
    """

    layout: Callable[[Any], Any]
    upgraded: Callable[[Any], Any]


class Environment(abc.ABC):
    """Boards [E] as one tree of arrays; pure functions of them.

    What is seen of a board (observation and mask) has a compact form, which is what a learner keeps
    until it needs the numbers. `hackmatrix.envs.conformance.check` tells whether an environment
    keeps to this protocol.
    """

    # What it is made by (hackmatrix.envs.make), which gives one from outside of this package its
    # MODULE:NAME: a class need not say it.
    name: str = "this environment"
    action_names: tuple[str, ...]
    observation: Mapping[str, tuple[int, ...]]  # the parts of one board's observation: shapes
    truncates: bool  # whether it ever cuts an episode off
    episode_limit: int = 0  # the actions after which training cuts an episode off; 0 for never
    most_actions: int = (
        2000  # after which an evaluation does: an agent may move back and forth for ever
    )
    types_are_checked: bool = True  # whether shard_map may check the types of what it does
    # Whether rollouts carry the small arrays of its boards as one (parallel/packed_scan.py).
    is_carried_together: bool = False
    has_potential: bool = False  # whether its steps tell a shaping
    has_possessions: bool = False  # whether the shaping tells how many of them were gained
    # The feature of the part "cells" that boards can be turned towards, if directions are the
    # actions up, down, left and right (hackmatrix.networks.turning).
    landmark: int | None = None
    action_kinds: Mapping[str, Sequence[str]] = MappingProxyType({})  # names of actions, by kind
    sections: tuple[Section, ...] = ()  # the metrics of its steps
    goal: str | None = None  # the metric of whole episodes to judge agents by; None: the return
    health: tuple[Range | Trend, ...] = ()
    older_layouts: tuple[OlderLayout, ...] = ()

    @abc.abstractmethod
    def reset(self, keys: Array) -> Any:
        """New boards [E], one a key (raw: u32[E, 2])."""

    @abc.abstractmethod
    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        """Takes an action on each board; where that ends an episode, the next one begins."""

    @abc.abstractmethod
    def encode(self, states: Any) -> Any:
        """What is seen of the boards, in its compact form (leaves [E, ...])."""

    def step_and_encode(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step, Any]:
        """A step, and what is seen of the boards after it. An environment that does both at once
        for less says so here.
        """
        after, happened = self.step(keys, states, actions)
        return after, happened, self.encode(after)

    @abc.abstractmethod
    def decode(self, seen: Any) -> tuple[Parts, Array]:
        """The observation in its named parts (f32[E, ...]) and the mask of valid actions bool[E, A]
        of what was seen.
        """

    def redrawn(self, keys: Array, states: Any) -> Any:
        """States that look the same to a player, with all that is hidden from it drawn anew (raw
        keys u32[E, 2]). Only environments that have this can be searched.
        """
        raise NotImplementedError(f"{self.name} does not say what is hidden from a player")

    def limited(self, actions: int) -> Self:
        """The same environment, but that training cuts episodes off after so many actions."""
        return changed(self, "episode_limit", actions)

    def on(self, platform: str, kernels: bool = False) -> Self:
        """The same environment for devices of a platform: "cpu", "gpu" or "tpu"; by kernels of its
        own, if it has any and is told to.
        """
        return self

    @property
    def tells_what_is_hidden(self) -> bool:
        return type(self).redrawn is not Environment.redrawn

    @property
    def num_actions(self) -> int:
        return len(self.action_names)

    @property
    def observation_size(self) -> int:
        """How many numbers an observation has."""
        return sum(math.prod(shape) for shape in self.observation.values())

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return tuple(metric for section in self.sections for metric in section.metrics)

    def observe(self, states: Any) -> Array:
        """f32[E, N]: the observation, its parts side by side."""
        return flat(self.decode(self.encode(states))[0], self.observation)

    def mask(self, states: Any) -> Array:
        """bool[E, A]: which actions are valid."""
        return self.decode(self.encode(states))[1]


def changed(env: Kind, attribute: str, value: Any) -> Kind:
    """A copy of an environment in which an attribute is another, also of a frozen dataclass."""
    other = copy.copy(env)
    vars(other).update(vars(env))  # a dataclass with slots copies its fields alone
    try:
        object.__setattr__(other, attribute, value)
    except AttributeError:
        kind = type(env)
        raise UserError(
            f"{kind.__module__}:{kind.__qualname__} has a property {attribute!r}, but the trainer "
            "sets it: make it an attribute"
        ) from None
    return other


def flat(parts: Parts, shapes: Mapping[str, tuple[int, ...]]) -> Array:
    """f32[..., N]: the parts side by side, in the order of the shapes."""
    return jnp.concatenate(
        [
            parts[name].reshape(*_batch(parts[name], shape), math.prod(shape))
            for name, shape in shapes.items()
        ],
        axis=-1,
    )


def in_parts(observation: Array, shapes: Mapping[str, tuple[int, ...]]) -> Parts:
    """The parts of observations f32[..., N]."""
    parts, start = {}, 0
    for name, shape in shapes.items():
        end = start + math.prod(shape)
        parts[name] = observation[..., start:end].reshape(*observation.shape[:-1], *shape)
        start = end
    return parts


def _batch(part: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    return part.shape[: part.ndim - len(shape)]
