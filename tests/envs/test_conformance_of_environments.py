"""Conformance of our environments and of faulty ones; environments made from addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from hackmatrix.envs import conformance, make
from hackmatrix.envs.hackmatrix_env import HackMatrix
from hackmatrix.envs.protocol import Environment, Parts, Shaping, Step
from hackmatrix.errors import UserError
from tests.envs.toy import ACTIONS, LENGTH, Boards, Toy

Array = jax.Array


def test_a_class_in_place_of_an_environment_is_reported() -> None:
    with pytest.raises(conformance.Broken, match=r"Toy is a class: pass an instance, Toy\(\)"):
        conformance.check(Toy)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "steps"), [("CartPole-v1", 60), ("Catch-bsuite", 40), ("MountainCar-v0", 240)]
)
def test_environments_of_gymnax_conform_to_the_protocol(name: str, steps: int) -> None:
    conformance.check(make(f"gymnax:{name}"), steps=steps)


def test_hackmatrix_conforms_to_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(HackMatrix, "step_and_encode")  # long to compile; see test_shaping.py
    conformance.check(make("hackmatrix"), steps=80)


@pytest.mark.parametrize("truncates", [False, True])
def test_an_environment_may_truncate_or_not(truncates: bool) -> None:
    conformance.check(Toy(truncates))


class Keyed(Toy):
    """The state of each board contains a typed key."""

    def boards(self, keys: Array, time: Array) -> Any:
        return super().boards(keys, time), jax.random.wrap_key_data(keys)

    def reset(self, keys: Array) -> Any:
        return self.boards(keys, jnp.zeros_like(keys[:, 0], jnp.int32))

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = Toy().step(keys, states[0], actions)
        return (after, states[1]), step

    def encode(self, states: Any) -> Boards:
        return super().encode(states[0])


def test_states_may_contain_typed_keys() -> None:
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
        return super().reset(keys).replace(time=jnp.where(keys[:, 0] == 0, 0, 1))


class Unbatched(Toy):
    """Observations decode correctly only in a batch of 8."""

    def decode(self, seen: Boards) -> tuple[Parts, Array]:
        parts, mask = super().decode(seen)
        return {**parts, "wanted": parts["wanted"] * (len(mask) == 8)}, mask


class Comparing(Toy):
    """The observation of a board is relative to the mean of the batch."""

    def decode(self, seen: Boards) -> tuple[Parts, Array]:
        parts, mask = super().decode(seen)
        return {**parts, "wanted": parts["wanted"] - parts["wanted"].mean(0)}, mask


class Forgetful(Toy):
    """Redraws what is seen as an episode begins, and the time by the key of the first board."""

    def redrawn(self, keys: Array, states: Boards) -> Boards:
        wanted = jnp.where(states.time == 0, self.reset(keys).wanted, states.wanted)
        time = jnp.full_like(states.time, keys[0, 0].astype(jnp.int32))
        return states.replace(wanted=wanted, time=time)


class InHundredths(Toy):
    """A metric in per cent is a number up to 100 instead of up to 1."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(each_step={"toy/invalid": 100.0 * ~step.terminated})


class Belated(Toy):
    """`step_and_encode` returns the observation before the step."""

    def step_and_encode(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step, Any]:
        return *self.step(keys, states, actions), self.encode(states)


class Scant(Toy):
    """`step_and_encode` returns an observation of another structure than `encode`."""

    def step_and_encode(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step, Any]:
        after, step = self.step(keys, states, actions)
        return after, step, after.mask


class Undeclared(Toy):
    """Reports a metric that it does not declare."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(each_step={"toy/unknown": step.reward})


class Truncating(Toy):
    """Truncates episodes although `truncates` is False."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(terminated=step.truncated, truncated=step.terminated)


class Endless(Toy):
    """No episode ends."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(terminated=jnp.zeros_like(step.terminated))


class Once(Toy):
    """No new episode begins after the first one: its time runs on."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        time = states.time + 1
        return after.replace(time=time), step.replace(terminated=time >= LENGTH)


class Stuck(Toy):
    """In the middle of an episode no action is valid."""

    def decode(self, seen: Boards) -> tuple[Parts, Array]:
        parts, mask = super().decode(seen)
        return parts, mask & (seen.time != 3)[..., None]


class Infinite(Toy):
    """A reward is not finite."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        return after, step.replace(reward=step.reward / 0)


class Potential(Toy):
    """The potential is the time left, but after the last step that of the next episode."""

    has_potential = True

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        left = (LENGTH - jnp.stack([states.time, after.time])).astype(jnp.float32)
        return after, step.replace(shaping=Shaping(left[0], left[1], jnp.zeros(left.shape[1:])))


class Unsteady(Potential):
    """The potential after a step is not the one before the next step."""

    def step(self, keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = super().step(keys, states, actions)
        assert step.shaping is not None
        other = step.shaping.after * ~step.ended + actions
        return after, step.replace(shaping=step.shaping.replace(after=other))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Peeking, "depends on the keys of other boards"),
        (Placed, "depends on its place in the batch"),
        (Weak, "other weak types than those of reset"),
        (Unbatched, "observations decode differently in another batch"),
        (Comparing, "observations decode differently in another batch"),
        (Forgetful, "redrawn: the boards look different to the player"),
        (Forgetful, "redrawn: what is drawn for a board depends on its place in the batch"),
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
def test_a_violation_of_the_protocol_is_reported(env: type[Toy], message: str) -> None:
    with pytest.raises(conformance.Broken) as broken:
        conformance.check(env(), steps=20)
    assert message in str(broken.value)


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


class Falling(Toy):
    def __init__(self) -> None:
        self.weight = 1 / 0


@pytest.mark.parametrize("name", ["Peeking", "sized", "Frozen", "Slotted"])
def test_an_environment_made_from_an_address_is_named_by_it(name: str) -> None:
    address = f"{__name__}:{name}"
    limited = make(address).limited(4).limited(9)
    assert (limited.name, limited.episode_limit) == (address, 9)
    assert (Toy().name, Toy().episode_limit) == ("toy", 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Unbegun", " does not define decode, encode, step, which every environment must"),
        ("Sized", "() cannot be called: missing a required argument: 'size'; arguments belong"),
        ("ACTIONS", f" must be a class or a function, not {ACTIONS}"),
        ("Named", " has a property 'name', but the trainer sets it: make it an attribute"),
        ("Falling", "() failed: ZeroDivisionError: division by zero, test_conf"),
        ("nothing", "() must return a hackmatrix.envs.protocol.Environment, not NoneType"),
    ],
)
def test_an_address_without_a_usable_environment_is_refused(name: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        make(f"{__name__}:{name}")
    assert str(refused.value).startswith(f"{__name__}:{name}{message}")
