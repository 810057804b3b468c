"""Faults of environments that are found without playing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.envs import conformance, static_checks
from hackmatrix.envs.metrics import Metric, Range, Section
from hackmatrix.envs.protocol import Environment, Shaping, Step
from hackmatrix.errors import UserError
from tests.envs.toy import Boards, Toy

Array = jax.Array


class OfOneBoard(Environment):
    """Written for one board at a time."""

    action_names = "left", "right"
    observation = {"place": (1,)}  # noqa: RUF012
    truncates = False

    def reset(self, keys: Array) -> Array:
        return jnp.float32(0)

    def step(self, keys: Array, states: Array, actions: Array) -> Any:
        raise AssertionError("its states are not sound: nobody should ask")

    def encode(self, states: Array) -> Array:
        return states

    def decode(self, seen: Array) -> Any:
        raise AssertionError("what is seen of them is not sound either")


class Forgetful(Toy):
    """`redrawn` changes the dtype of the time."""

    def redrawn(self, keys: Array, states: Boards) -> Boards:
        return states.replace(time=1.0 * states.time)


class Late(Toy):
    """Makes a table when it first needs it, which is while it is traced."""

    def decode(self, seen: Any) -> Any:
        self.table = jnp.arange(3.0)
        return super().decode(seen)


def facing(landmark: Any, **observation: tuple[int, ...]) -> Toy:
    """Returns a toy with directions, a landmark, and an observation of these parts."""
    names = "up", "down", "left", "right"
    return declaring(landmark=landmark, action_names=names, observation=observation)


def declaring(**attributes: Any) -> Toy:
    """Returns a toy with these attributes or methods in place of its own."""
    env = Toy()
    vars(env).update(attributes)
    return env


def undeclared(name: str) -> Toy:
    env = Toy()
    del vars(env)[name]
    return env


def altered(env: Toy | None = None, **changed: Callable[[Step], Any]) -> Toy:
    """Returns a toy, or the one given, with these fields of its steps replaced."""
    env = env or Toy()
    original = env.step

    def step(keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = original(keys, states, actions)
        return after, step.replace(**{name: new(step) for name, new in changed.items()})

    vars(env).update(step=step)
    return env


def seeing(change: Callable[[Any, Array], Any]) -> Toy:
    """Returns a toy whose decoded parts and mask are changed."""
    return declaring(decode=lambda seen: change(*Toy().decode(seen)))


def later(change: Callable[[Any], Any]) -> Toy:
    """Returns a toy whose states after a step are changed."""

    def step(keys: Array, states: Any, actions: Array) -> tuple[Any, Step]:
        after, step = Toy().step(keys, states, actions)
        return change(after), step

    return declaring(step=step)


def ending(change: Callable[[Boards], Any]) -> Toy:
    """Returns a toy that truncates, with changed final observations."""
    return altered(Toy(truncates=True), final=lambda step: change(step.final))


def shaped(change: Callable[[Shaping], Any]) -> Toy:
    """Returns a toy with a potential whose shaping is changed."""
    return altered(declaring(has_potential=True), shaping=lambda step: change(shaping(step)))


def counting(seen: Boards) -> Any:
    """Decodes with a loop whose carry begins with a constant."""
    parts, mask = Toy().decode(seen)
    count = jax.lax.fori_loop(0, 3, lambda _, sum_: sum_ + seen.time, jnp.zeros(seen.time.shape))
    return {**parts, "wanted": parts["wanted"] + count[:, None]}, mask


def boom(*_: Any) -> Any:
    raise ValueError("boom\nand more")


def shaping(step: Step) -> Shaping:
    return Shaping(step.reward, step.reward, step.reward)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (3, "it is of type int, which is not a subclass of hackmatrix.envs.protocol.Environment"),
        (undeclared("truncates"), "it does not define truncates: see hackmatrix.envs.protocol"),
        (declaring(action_names=()), "action_names must be a non-empty tuple of strings"),
        (declaring(action_names="up"), "action_names must be a non-empty tuple"),
        (declaring(action_names=np.array(["up", "down"])), "action_names must be a non-empty"),
        (declaring(action_names=("up", "on", "up")), "action_names has up more than once"),
        (declaring(observation={}), "must map the names of one or more parts to shapes"),
        (declaring(observation={"x": 2}), "it is {'x': 2}"),
        (declaring(observation={"x": [2]}), "it is {'x': [2]}"),
        (declaring(observation={1: (4,)}), "it is {1: (4,)}"),
        (declaring(sections=Metric("a/b", "b")), "sections must be a tuple of Sections"),
        (declaring(health=Range("toy/invalid")), "health must be a tuple of Ranges and Trends"),
        (declaring(health=("toy/invalid",)), "and Trends; it is ('toy/invalid',)"),
        (
            declaring(sections=(*Toy.sections, *Toy.sections[:1])),
            "`sections` declares the metrics toy/highest_wanted, toy/invalid, toy/last_wanted more",
        ),
        (
            declaring(sections=(Section("a", (Metric("train/mean_reward", "b"),)),)),
            "`sections` declares train/mean_reward, which the trainer declares itself",
        ),
        (
            declaring(sections=(Section("a", (Metric("ended", "b"), Metric("time", "c"))),)),
            "`sections` declares ended, time, which the trainer declares itself",
        ),
        (
            declaring(episode_limit=9),
            "overwrite 9: remove it and pass --config.episode_limit=9",
        ),
        (declaring(most_actions=0), "must be a positive integer; it is 0"),
        (declaring(most_actions=True), "must be a positive integer; it is True"),
        (declaring(action_kinds={"a": ["take 9"]}), "names that are not in `action_names`: take 9"),
        (declaring(action_kinds=("a",)), "must map the names of kinds to names of actions; it is"),
        (declaring(action_kinds={"a": "take 1"}), "must map the names of kinds to names of"),
        (declaring(action_kinds={5: ["take 1"]}), "must map the names of kinds to names of"),
        (facing("exit", cells=(4, 4, 2)), "must be the index of a feature of cells; it is 'exit'"),
        (facing(0, player=(3,)), "`landmark` is 0, which needs a part cells"),
        (facing(2, cells=(4, 4, 2), player=(3,)), "`landmark` is 2, which needs a part cells"),
        (facing(0, cells=(4, 4, 2), player=(1,)), "a part player [numbers] that begins with"),
        (OfOneBoard(), "reset: the array has no leading axis of boards: it is float32[] for 2"),
        (declaring(reset=boom), "reset: it cannot be traced for 2 boards: ValueError: boom"),
        (declaring(encode=boom), "encode: it cannot be traced for 2 boards: ValueError: boom"),
        (declaring(encode=lambda states: states.time[0]), "encode: the array has no leading axis"),
        (declaring(decode=boom), "decode: it cannot be traced for 2 boards: ValueError: boom"),
        (seeing(lambda parts, mask: parts), "must return a dict of the parts of the observation"),
        (
            seeing(lambda parts, mask: ({"mask": parts["mask"]}, mask)),
            "decode: it returns the parts mask, but `observation` declares mask, wanted",
        ),
        (
            seeing(lambda parts, mask: ({1: parts["mask"]}, mask)),
            "decode: it returns the parts 1, but",
        ),
        (
            seeing(lambda parts, mask: ({**parts, "mask": mask}, mask)),
            "decode: the part mask must be float32[2, 6], but is bool[2, 6]",
        ),
        (
            seeing(lambda parts, mask: (parts, mask[:, 1:])),
            "decode: the mask must be bool[2, 6], but is bool[2, 5]",
        ),
        (
            seeing(lambda parts, mask: (parts, 1.0 * mask)),
            "decode: the mask must be bool[2, 6], but is float32[2, 6]",
        ),
        (declaring(step=boom), "step: it cannot be traced for 2 boards: ValueError: boom"),
        (declaring(step=lambda *given: given), "must return the next states and a hackmatrix"),
        (later(lambda after: {"time": after.time}), "differ in structure from those of reset"),
        (
            later(lambda after: after.replace(time=1.0 * after.time)),
            "step: its states differ from those of reset: the leaf .time is float32[2]",
        ),
        (altered(reward=lambda _: 1.0), "reward must be float32[2], one number per board, but is"),
        (altered(reward=lambda step: step.ended), "reward must be float32[2]"),
        (altered(terminated=lambda step: step.reward), "terminated must be bool[2]"),
        (altered(truncated=lambda _: None), "truncated must be bool[2], one number per board"),
        (altered(final=lambda step: step.reward), "`final` must be set if `truncates` is True"),
        (declaring(truncates=True), "`final` must be set if `truncates` is True"),
        (Toy(truncates=True), None),
        (
            ending(lambda final: {"time": final.time}),
            "step: the values in `final` differ in structure from those of encode",
        ),
        (
            ending(lambda final: final.replace(wanted=final.wanted[:, None])),
            "differ from those of encode: the leaf .wanted is int32[2, 1], not int32[2]",
        ),
        (
            ending(lambda final: final.replace(wanted=1.0 * final.wanted)),
            "differ from those of encode: the leaf .wanted is float32[2], not int32[2]",
        ),
        (
            altered(shaping=shaping),
            "`shaping` must be set if `has_potential` is True, and None if not",
        ),
        (declaring(has_potential=True), "`shaping` must be set if `has_potential` is True"),
        (shaped(lambda old: old.before), "`shaping` must be a hackmatrix.envs.protocol.Shaping"),
        (
            shaped(lambda old: old.replace(after=0.0)),
            "step: shaping.after must be float32[2], one number per board, but is float32[]",
        ),
        (shaped(lambda old: old.replace(rewarded=old.before > 0)), "but is bool[2]"),
        (shaped(lambda old: old), None),
        (altered(each_step=lambda _: None), "`each_step` must be a dict of metrics whose keys"),
        (altered(each_step=lambda step: {5: step.reward}), "whose keys are tags (strings)"),
        (altered(each_episode=lambda step: {5: step.reward}), "whose keys are tags (strings)"),
        (altered(highest=lambda step: {5: step.reward}), "whose keys are tags (strings)"),
        (altered(highest=lambda _: {"a/b": 1.0}), "the metric a/b must have one number per board"),
        (
            altered(each_step=lambda step: {"train/cut_off": step.reward}),
            "`each_step` has train/cut_off, which the trainer logs itself",
        ),
        (
            altered(each_episode=lambda step: {"a/score": step.reward, "b/score": step.reward}),
            "two metrics would both be logged as eval/score: use distinct names",
        ),
        (
            altered(each_episode=lambda step: {"toy/ended": step.reward}),
            "two metrics would both be logged as eval/ended: use distinct names",
        ),
        (
            altered(each_episode=lambda step: {"toy/cut_off": step.reward}),
            "two metrics would both be logged as eval/cut_off: use distinct names",
        ),
        (
            altered(highest=lambda step: {**step.highest, **step.each_step}),
            "more than one of each_step, each_episode, highest has toy/invalid: rename one",
        ),
        (declaring(goal="toy/invalid"), "`each_episode` does not have the metric toy/invalid"),
        (
            declaring(goal="toy/last_wanted", sections=()),
            "`sections` does not declare the metric toy/last_wanted, which `goal` names",
        ),
        (declaring(decode=counting), "it fails the type check of shard_map, as used in training"),
        (Late(), "it sets its attribute table while it is traced: compute that in __init__"),
        (Forgetful(), "redrawn: its states differ from those of reset: the leaf .time is float32"),
        (declaring(goal="toy/last_wanted"), None),
    ],
)
def test_violations_of_the_protocol_are_found_without_playing(
    env: Any, message: str | None
) -> None:
    assert [line for line in static_checks.faults(env) if not (message and message in line)] == []
    assert bool(list(static_checks.faults(env))) == bool(message)


def test_an_environment_with_possessions_must_report_them_in_its_shaping() -> None:
    env = altered(shaping=shaping)
    vars(env).update(has_potential=True, has_possessions=True)
    assert "`shaping.gained` must be set" in "".join(static_checks.faults(env))


def test_the_parts_may_come_in_any_order() -> None:
    env = seeing(lambda parts, mask: (dict(reversed(parts.items())), mask))
    assert not [*static_checks.faults(env)]


def test_all_faults_are_reported_at_once_with_a_hint_how_to_find_more() -> None:
    with pytest.raises(UserError) as refused:
        static_checks.check(altered(reward=lambda _: 1.0, terminated=lambda step: step.reward))
    first, second, hint = str(refused.value).splitlines()
    assert first.startswith("toy: step: reward must be")
    assert second.startswith("toy: step: terminated must be")
    assert hint.startswith("run hackmatrix.envs.conformance.check(env)")


def test_the_conformance_suite_does_not_play_environments_with_faults() -> None:
    with pytest.raises(conformance.Broken, match="the array has no leading axis of boards"):
        conformance.check(OfOneBoard())
