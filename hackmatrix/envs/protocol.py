"""The protocol of environments: batches of boards, each board with a PRNG key of its own."""

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
# The parts of observations [E, ...] by name; `Environment.observation` defines their order.
Parts = dict[str, Array]
Kind = TypeVar("Kind", bound="Environment")
# From marks [E, R, C] of the landmark, and parts whose cells [E, R, C, F] may be encoded, to the
# parts of turned boards, and how they were turned.
Turned = Callable[[Array, Parts], tuple[Parts, Any]]


class Shaping(struct.PyTreeNode):
    """Potential-based shaping of the reward, and possessions gained; f32[E] each.

    `before` and `after` are the potential before and after a step (`after` is 0 where the episode
    terminated). `rewarded` is the part of the reward that the shaping replaces: what rewards the
    same change, and what could be earned again and again. `gained` is the number of possessions
    gained, less those lost (0 where the episode terminated); None if the environment has none.
    """

    before: Array
    after: Array
    rewarded: Array
    gained: Array | None = None


class Step(struct.PyTreeNode):
    """The result of a step on each of [E] boards.

    `final` is what was seen at the end of each episode, in compact form, before the next one began;
    None if the environment never truncates. The dicts are metrics by tag: `each_step` is averaged
    over all steps, `each_episode` over the steps that end an episode, and `highest` is the maximum
    over those.
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
        """bool[E]: truncated, and not also terminated. Some environments set both flags where an
        episode comes to its own end at the limit.
        """
        return self.truncated & ~self.terminated


@dataclass(frozen=True)
class OlderLayout:
    """The states of an earlier version of an environment, which checkpoints may hold. `layout` maps
    today's states (arrays or their shapes) to what to restore in their place. `upgraded` makes
    today's states from what was restored, under jax.jit.
    """

    layout: Callable[[Any], Any]
    upgraded: Callable[[Any], Any]


class Environment(abc.ABC):
    """An environment: pure functions of states, each a pytree of arrays for boards [E].

    What is seen of a board (observation and mask) has a compact form, which a learner stores until
    it needs the numbers. `hackmatrix.envs.conformance.check` checks that an environment conforms to
    this protocol.
    """

    # The name that `hackmatrix.envs.make` takes. On environments from outside of this package it
    # sets their MODULE:NAME, so that their classes need not.
    name: str = "this environment"
    action_names: tuple[str, ...]
    observation: Mapping[str, tuple[int, ...]]  # the shapes of the parts of one observation
    truncates: bool  # whether it ever truncates an episode
    episode_limit: int = 0  # the actions after which training truncates an episode; 0: never
    most_actions: int = (
        2000  # after which an evaluation truncates it: an agent may go back and forth forever
    )
    types_are_checked: bool = True  # whether its functions pass shard_map's type check
    # Whether rollouts pack the small arrays of its boards into one (parallel/packed_scan.py).
    packs_small_arrays: bool = False
    # Whether rollouts carry its boards on the last axis of arrays (parallel/boards_last.py).
    puts_boards_last: bool = False
    has_potential: bool = False  # whether its steps have a `shaping`
    has_possessions: bool = False  # whether the shaping has `gained`
    # The index of the feature in the part "cells" that boards can be turned towards, if the actions
    # include up, down, left and right (hackmatrix.networks.turning).
    landmark: int | None = None
    action_kinds: Mapping[str, Sequence[str]] = MappingProxyType({})  # names of actions, by kind
    sections: tuple[Section, ...] = ()  # the metrics of its steps
    goal: str | None = None  # the episode metric that agents are judged by; None: the return
    health: tuple[Range | Trend, ...] = ()
    older_layouts: tuple[OlderLayout, ...] = ()

    @abc.abstractmethod
    def reset(self, keys: Array) -> Any:
        """Returns new boards [E], one for each raw key u32[E, 2]."""

    @abc.abstractmethod
    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        """Takes an action on each board; where that ends an episode, the next one begins."""

    @abc.abstractmethod
    def encode(self, states: Any) -> Any:
        """Returns what is seen of the boards, in compact form (leaves [E, ...])."""

    def step_and_encode(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step, Any]:
        """Takes a step, and also returns what is seen of the boards after it. Override this where
        doing both at once is cheaper.
        """
        after, happened = self.step(keys, states, actions)
        return after, happened, self.encode(after)

    @abc.abstractmethod
    def decode(self, seen: Any) -> tuple[Parts, Array]:
        """Returns the named parts of the observation (f32[E, ...]) and the mask of valid actions
        (bool[E, A]) from what was seen.
        """

    def turned_by(self, turned: Turned) -> Self:
        """Returns a copy whose `decode` turns the boards, where that is cheaper before the cells
        are decoded. By default it does not, and the network turns them.
        """
        return self

    def redrawn(self, keys: Array, states: Any) -> Any:
        """Returns states that look the same to a player, with all that is hidden from it redrawn
        (raw keys u32[E, 2]). Search requires this method.
        """
        raise NotImplementedError(f"{self.name} does not define `redrawn`")

    def limited(self, actions: int) -> Self:
        """Returns a copy in which training truncates episodes after so many actions."""
        return with_attribute(self, "episode_limit", actions)

    def on(self, platform: str, kernels: bool = False) -> Self:
        """Returns this environment for a platform: "cpu", "gpu" or "tpu". With `kernels` it uses
        kernels of its own, if it has any.
        """
        return self

    @property
    def cuts_off(self) -> bool:
        """Whether episodes may be truncated in training, by the environment or by its limit."""
        return self.truncates or self.episode_limit > 0

    @property
    def can_redraw(self) -> bool:
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
        """f32[E, N]: the observation, with its parts concatenated."""
        return flat(self.decode(self.encode(states))[0], self.observation)

    def mask(self, states: Any) -> Array:
        """bool[E, A]: which actions are valid."""
        return self.decode(self.encode(states))[1]


def with_attribute(env: Kind, attribute: str, value: Any) -> Kind:
    """Returns a copy of an environment, even a frozen dataclass, with one attribute changed."""
    other = copy.copy(env)
    vars(other).update(vars(env))  # a dataclass with slots copies only its fields
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
    """Concatenates the parts to f32[..., N], in the order of the shapes."""
    return jnp.concatenate(
        [
            parts[name].reshape(*_batch(parts[name], shape), math.prod(shape))
            for name, shape in shapes.items()
        ],
        axis=-1,
    )


def in_parts(observation: Array, shapes: Mapping[str, tuple[int, ...]]) -> Parts:
    """Splits observations f32[..., N] into their parts."""
    parts, start = {}, 0
    for name, shape in shapes.items():
        end = start + math.prod(shape)
        parts[name] = observation[..., start:end].reshape(*observation.shape[:-1], *shape)
        start = end
    return parts


def _batch(part: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    return part.shape[: part.ndim - len(shape)]
