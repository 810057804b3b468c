"""The conformance suite, on our environments and on ones that break a promise."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from hackmatrix.envs import conformance, make
from hackmatrix.envs.protocol import Parts, Shaping, Step
from tests.envs.toy import LENGTH, Boards, Toy

Array = jax.Array


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("hackmatrix", 120),
        ("gymnax:CartPole-v1", 60),
        ("gymnax:Catch-bsuite", 40),
        ("gymnax:MountainCar-v0", 240),
    ],
)
def test_our_environments_keep_to_the_protocol(name: str, steps: int) -> None:
    conformance.check(make(name), steps=steps)


@pytest.mark.parametrize("truncates", [False, True])
def test_an_environment_may_truncate_or_not(truncates: bool) -> None:
    conformance.check(Toy(truncates))


class Peeking(Toy):
    """What happens on a board depends on the key of the first."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        return super().step(keys ^ keys[:1], states, actions)


class Placed(Toy):
    """What happens on a board depends on its place in the batch."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        place = jnp.arange(len(actions), dtype=jnp.uint32)
        return super().step(keys + place[:, None], states, actions)


class Weak(Toy):
    """The states of reset are of weak types, so a loop would compile twice."""

    def reset(self, keys: Array) -> Boards:
        boards = super().reset(keys)
        return boards.replace(time=jnp.where(boards.time == 0, 0, 1))


class Unmasked(Toy):
    """The mask has an action too many."""

    def decode(self, seen: Boards) -> tuple[Parts, Array]:
        parts, mask = super().decode(seen)
        return parts, jnp.pad(mask, ((0, 0), (0, 1)))


class Misshapen(Toy):
    """A part is missing."""

    def decode(self, seen: Boards) -> tuple[Parts, Array]:
        parts, mask = super().decode(seen)
        return {"mask": parts["mask"]}, mask


class Unbatched(Toy):
    """What was seen cannot be decoded in another batch."""

    def decode(self, seen: Boards) -> tuple[Parts, Array]:
        parts, mask = super().decode(seen)
        return {**parts, "wanted": parts["wanted"] * (len(mask) == 8)}, mask


class Belated(Toy):
    """What it says is seen after a step is what was seen before it."""

    def step_and_encode(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step, Any]:
        return *self.step(keys, states, actions), self.encode(states)


class Undeclared(Toy):
    """It tells a metric that nobody knows."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(each_step={"toy/unknown": step.reward})


class SameName(Toy):
    """Two metrics would be one curve."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        both = {"red/score": step.reward, "blue/score": step.reward}
        return after, step.replace(each_episode={**step.each_episode, **both})


class Aimless(Toy):
    """What its agents are compared by is not known of an episode."""

    goal = "toy/invalid"


class Unkind(Toy):
    """An action that it counts is none of its own."""

    action_kinds = MappingProxyType({"takes": ("take 0", "take 9")})


class Truncating(Toy):
    """It cuts episodes off, and says that it does not."""

    def __init__(self) -> None:
        super().__init__(truncates=True)
        self.truncates = False


class Endless(Toy):
    """No episode ends."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(terminated=jnp.zeros_like(step.terminated))


class Infinite(Toy):
    """A reward is not finite."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(reward=step.reward / 0)


class Potential(Toy):
    """The time that is left, but the next episode's begins at the end of the last."""

    has_potential = True

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        left = (LENGTH - jnp.stack([states.time, after.time])).astype(jnp.float32)
        return after, step.replace(shaping=Shaping(left[0], left[1], jnp.zeros(left.shape[1:])))


class Secretive(Potential):
    """Nobody is told what its players own."""

    has_possessions = True


class Unsteady(Potential):
    """The potential is another one every time that it is asked for."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        assert step.shaping is not None
        other = step.shaping.after * ~step.ended + actions
        return after, step.replace(shaping=step.shaping.replace(after=other))


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (Peeking, "depends on the keys of others"),
        (Placed, "depends on its place in the batch"),
        (Weak, "other shapes or (weak) types"),
        (Unmasked, "the mask must be bool[8, 6]"),
        (Misshapen, "`observation` declares"),
        (Unbatched, "decode to other numbers"),
        (Belated, "something else than step and encode"),
        (SameName, "one would be lost: a run's eval/NAME"),
        (Undeclared, "does not declare the metrics toy/unknown"),
        (Aimless, "no episode ends with the metric toy/invalid"),
        (Unkind, "`action_kinds` has what `action_names` lacks: take 9"),
        (Truncating, "is truncated, but `truncates` is False"),
        (Endless, "no episode ended in 20 steps"),
        (Infinite, "a reward is not finite"),
        (Secretive, "`gained` must be given by an environment that has possessions"),
        (Potential, "the potential after the end of an episode must be 0"),
        (Unsteady, "the potential after a step is not the one before the next"),
    ],
)
def test_a_broken_promise_is_named(env: type[Toy], said: str) -> None:
    with pytest.raises(conformance.Broken) as broken:
        conformance.check(env(), steps=20)
    assert said in str(broken.value)
