"""Conformance of our environments, and of ones that break a promise; names from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from hackmatrix.envs import conformance, make
from hackmatrix.envs.protocol import Environment, Parts, Shaping, Step
from hackmatrix.errors import UserError
from tests.envs.toy import ACTIONS, LENGTH, Boards, Toy

Array = jax.Array


def test_a_class_in_place_of_an_environment_is_named() -> None:
    with pytest.raises(conformance.Broken, match=r"Toy is a class: pass an instance, Toy\(\)"):
        conformance.check(Toy)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("hackmatrix", 80),
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


class Keyed(Toy):
    """Each board has a typed key of its own among its states."""

    def boards(self, keys: Array, time: Array) -> Any:
        return super().boards(keys, time), jax.random.wrap_key_data(keys)

    def reset(self, keys: Array) -> Any:
        return self.boards(keys, jnp.zeros_like(keys[:, 0], jnp.int32))

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = Toy().step(keys, states[0], actions)
        return (after, states[1]), step

    def encode(self, states: Any) -> Boards:
        return super().encode(states[0])


def test_an_environment_may_keep_typed_keys() -> None:
    conformance.check(Keyed())


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


class Unbatched(Toy):
    """What was seen cannot be decoded in another batch."""

    def decode(self, seen: Boards) -> tuple[Parts, Array]:
        parts, mask = super().decode(seen)
        return {**parts, "wanted": parts["wanted"] * (len(mask) == 8)}, mask


class Comparing(Toy):
    """What is seen of a board is compared with the mean of all."""

    def decode(self, seen: Boards) -> tuple[Parts, Array]:
        parts, mask = super().decode(seen)
        return {**parts, "wanted": parts["wanted"] - parts["wanted"].mean(0)}, mask


class Forgetful(Toy):
    """With what is hidden, all else is drawn anew."""

    def redrawn(self, keys: Array, states: Boards) -> Boards:
        return self.reset(keys)


class InHundredths(Toy):
    """A metric in per cent is told times 100."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(each_step={"toy/invalid": 100.0 * ~step.terminated})


class Belated(Toy):
    """What it says is seen after a step is what was seen before it."""

    def step_and_encode(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step, Any]:
        return *self.step(keys, states, actions), self.encode(states)


class Scant(Toy):
    """What it says is seen after a step is of another structure than what is seen."""

    def step_and_encode(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step, Any]:
        after, step = self.step(keys, states, actions)
        return after, step, after.mask


class Undeclared(Toy):
    """It tells a metric that nobody knows."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(each_step={"toy/unknown": step.reward})


class Truncating(Toy):
    """It cuts episodes off, and says that it does not."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(terminated=step.truncated, truncated=step.terminated)


class Endless(Toy):
    """No episode ends."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(terminated=jnp.zeros_like(step.terminated))


class Once(Toy):
    """After the first episode no other begins: its time goes on."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        time = states.time + 1
        return after.replace(time=time), step.replace(terminated=time >= LENGTH)


class Stuck(Toy):
    """In the midst of an episode there is nothing to do."""

    def decode(self, seen: Boards) -> tuple[Parts, Array]:
        parts, mask = super().decode(seen)
        return parts, mask & (seen.time != 3)[..., None]


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
        (Peeking, "depends on the keys of other boards"),
        (Placed, "depends on its place in the batch"),
        (Weak, "other weak types than those of reset"),
        (Unbatched, "observations decode differently in another batch"),
        (Comparing, "observations decode differently in another batch"),
        (Forgetful, "redrawn: the boards look different to the player"),
        (InHundredths, "the metric toy/invalid is in %, so it must be from 0 to 1"),
        (Belated, "something other than step followed by encode"),
        (Scant, "something other than step followed by encode"),
        (Undeclared, "does not declare the metrics toy/unknown"),
        (Truncating, "is truncated, but `truncates` is False"),
        (Endless, "no episode ended in 20 steps"),
        (Once, "no new episode begins after the first one ends"),
        (Stuck, "the mask allows no action on a board whose episode goes on"),
        (Infinite, "a reward is not finite"),
        (Potential, "the potential after a step that terminates an episode must be 0"),
        (Unsteady, "the potential after a step differs from the one before the next"),
    ],
)
def test_a_broken_promise_is_named(env: type[Toy], said: str) -> None:
    with pytest.raises(conformance.Broken) as broken:
        conformance.check(env(), steps=20)
    assert said in str(broken.value)


class Sized(Toy):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


def sized() -> Sized:
    return Sized(3)


def nothing() -> None:
    return None


@dataclass(frozen=True)
class Frozen(Toy):
    truncates: bool = False
    _cuts_off = False


@dataclass(frozen=True, slots=True)
class Slotted(Toy):
    size: int = 3
    _cuts_off = False


class Named(Toy):
    @property
    def name(self) -> str:  # type: ignore[override]
        return "mine"


class Unbegun(Environment):
    truncates = False

    def reset(self, keys: Array) -> Array:
        return keys

    def encode(self, states: Array) -> Array:
        return states


class Falling(Toy):
    def __init__(self) -> None:
        self.weight = 1 / 0


@pytest.mark.parametrize("name", ["Peeking", "sized", "Frozen", "Slotted"])
def test_an_environment_from_outside_is_called_by_its_address(name: str) -> None:
    address = f"{__name__}:{name}"
    limited = make(address).limited(4).limited(9)
    assert (limited.name, limited.episode_limit) == (address, 9)
    assert (Toy().name, Toy().episode_limit) == ("toy", 0)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Unbegun", " does not define decode, step, which every environment must"),
        ("Sized", " must be callable without arguments: missing a required argument: 'size'"),
        ("ACTIONS", f" must be callable without arguments: {ACTIONS} is not a callable object"),
        ("Named", " has a property 'name', but the trainer sets it: make it an attribute"),
        ("Falling", "() failed: ZeroDivisionError: division by zero, test_conf"),
        ("nothing", "() must return a hackmatrix.envs.protocol.Environment, not NoneType"),
    ],
)
def test_a_name_that_stands_for_no_environment_is_refused(name: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        make(f"{__name__}:{name}")
    assert str(refused.value).startswith(f"{__name__}:{name}{said}")
