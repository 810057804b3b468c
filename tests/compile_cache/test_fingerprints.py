"""Fingerprints distinguish programs by everything that they are made of."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix import networks
from hackmatrix.compile_cache import fingerprints
from hackmatrix.compile_cache.sources import version
from hackmatrix.envs import make
from hackmatrix.networks import Spec
from hackmatrix.rl import draws, games
from hackmatrix.rl.games import Actor
from hackmatrix.rl.reward_signal import RewardSignal
from hackmatrix.search.planner import Planner

GAME = make("hackmatrix")
SPEC = Spec("mlp", 8, 1, 4, False, "float32")


def network(**changes: Any) -> networks.actor_critic.Network:
    return networks.make(dataclasses.replace(SPEC, **changes), GAME)


def player(actor: Actor, steps: int = 16) -> Callable[..., Any]:
    return functools.partial(games.play, actor, steps)


def planner(**changes: Any) -> Planner:
    own = {"games": 8, "signal": RewardSignal(0.99, False, False), **changes}
    return Planner(GAME, network(), **own)


def test_equal_parts_have_equal_fingerprints() -> None:
    first, second = (player(Actor(make("hackmatrix"), network())) for _ in range(2))
    assert first is not second
    assert fingerprints.of(first) == fingerprints.of(second)


@pytest.mark.parametrize(
    "other",
    [
        player(Actor(GAME, network()), steps=17),
        player(Actor(GAME.limited(100), network())),
        *(
            player(Actor(GAME, network(**{name: value})))
            for name, value in {
                "network": "conv",
                "hidden_dim": 16,
                "num_layers": 2,
                "channels": 8,
                "separate_critic": True,
                "compute_dtype": "bfloat16",
                "turn_boards": True,
            }.items()
        ),
        player(Actor(GAME, network(), planner().look_ahead)),
        functools.partial(games.begin, Actor(GAME, network()), 16),
    ],
)
def test_another_part_changes_the_fingerprint(other: Callable[..., Any]) -> None:
    assert fingerprints.of(other) != fingerprints.of(player(Actor(GAME, network())))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (functools.partial(draws.seed_key, seed=1), functools.partial(draws.seed_key, seed=2)),
        (draws.Purpose.SHUFFLE, draws.Purpose.PARAMETERS),
        (np.zeros((3, 1)), np.zeros(3)),
    ],
)
def test_another_value_changes_the_fingerprint(one: Any, other: Any) -> None:
    assert fingerprints.of(one) != fingerprints.of(other)


def test_constant_arrays_are_identified_by_values_type_shape_and_device() -> None:
    arrays = [
        jnp.zeros(3),
        jnp.ones(3),
        jnp.zeros(3, jnp.int32),
        jnp.zeros((3, 1)),
        jax.device_put(jnp.zeros(3), jax.devices()[0]),
        jax.device_put(jnp.zeros(3), jax.devices()[1]),
    ]
    found = [fingerprints.of(functools.partial(draws.seed_key, each)) for each in arrays]
    assert len({*found}) == len(arrays)
    assert found[0] == fingerprints.of(functools.partial(draws.seed_key, jnp.zeros(3)))


@pytest.mark.parametrize(
    "changes", [{"games": 9}, {"signal": RewardSignal(0.9, False, False)}, {"env": GAME.limited(9)}]
)
def test_different_planners_have_different_fingerprints(changes: dict[str, Any]) -> None:
    other = dataclasses.replace(planner(), **changes)
    assert fingerprints.of(other.look_ahead) != fingerprints.of(planner().look_ahead)


def test_fingerprints_of_gymnax_environments_include_its_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cartpole = fingerprints.of(make("gymnax:CartPole-v1"))
    assert cartpole == fingerprints.of(make("gymnax:CartPole-v1"))
    assert cartpole != fingerprints.of(make("gymnax:Acrobot-v1"))
    assert cartpole != fingerprints.of(make("gymnax:CartPole-v1").limited(9))
    monkeypatch.setattr(
        fingerprints, "source_hash", lambda package: f"other sources of {package.name}"
    )
    assert "other sources of gymnax" in fingerprints.of(make("gymnax:CartPole-v1"))


class Foreign:
    """A class from outside of the package."""


@pytest.mark.parametrize(
    "part",
    [
        lambda: 0,
        np.mean,
        Foreign,
        Foreign(),
        functools.partial(fingerprints.of, Foreign()),
        jax.jit(lambda x: x),
        functools.partial(draws.seed_key, jax.random.key(0)),
    ],
)
def test_a_part_that_may_change_without_this_package_is_unknown(part: Any) -> None:
    with pytest.raises(fingerprints.Unknown):
        fingerprints.of(part)


def test_arguments_of_other_shapes_types_or_devices_are_distinguished() -> None:
    device = jax.devices()[1]
    many = [
        np.zeros(3, np.float32),
        np.zeros(4, np.float32),
        np.zeros(3, np.int32),
        {"name": np.zeros(3, np.float32)},
        jax.device_put(np.zeros(3, np.float32), device),
        jnp.float32(0),
        jnp.asarray(0.0),  # weakly typed
    ]
    assert len({fingerprints.arguments(each) for each in many}) == len(many)


def test_surroundings_depend_on_the_device_settings_and_flags(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    devices = jax.devices()[:1]
    usual = fingerprints.surroundings(devices)
    assert fingerprints.surroundings(devices) == usual
    assert fingerprints.surroundings(jax.devices()[1:2]) != usual
    own = {name: getattr(devices[0], name) for name in ("id", "device_kind", "process_index")}
    for changes in ({}, {"process_index": 1}, {"coords": (0, 0, 1)}, {"slice_index": 1}):
        device: Any = SimpleNamespace(client=devices[0].client, **{**own, **changes})
        assert (fingerprints.surroundings([device]) == usual) == (not changes)
    with jax.default_matmul_precision("highest"):
        assert fingerprints.surroundings(devices) != usual
    for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "--xla_cpu_enable_fast_math=true")
            assert fingerprints.surroundings(devices) != usual
    flags = tmp_path / "flags"
    with monkeypatch.context() as patch:
        patch.setenv("XLA_FLAGS", str(flags))
        found = {fingerprints.surroundings(devices)}  # the file does not exist yet
        for each in ("--xla_cpu_enable_fast_math=true", "--xla_cpu_enable_fast_math=false"):
            flags.write_text(each)
            found.add(fingerprints.surroundings(devices))
        assert len({usual, *found}) == 4


def one_device(**others: Any) -> Any:
    """Returns a copy of the first device, with changes to what its client reports."""
    device = jax.devices()[0]
    of_client = ("platform", "platform_version", "process_index", "devices")
    client = SimpleNamespace(**{name: getattr(device.client, name) for name in of_client} | others)
    own = {name: getattr(device, name) for name in ("id", "device_kind", "process_index")}
    return SimpleNamespace(client=client, **own)


@pytest.mark.parametrize(
    "other",
    [
        {"platform": "tpu"},
        {"platform_version": "another"},
        {"process_index": lambda: 1},
        {"devices": lambda: 9 * jax.devices()},
    ],
)
def test_another_compiler_has_other_surroundings(other: dict[str, Any]) -> None:
    usual = fingerprints.surroundings(jax.devices()[:1])
    assert fingerprints.surroundings([one_device()]) == usual
    assert fingerprints.surroundings([one_device(**other)]) != usual


@pytest.mark.parametrize(
    ("of", "name", "other"),
    [
        (sys, "version", "another"),
        (os, "sched_getaffinity", lambda _: range(4096)),
        (fingerprints, "version", lambda package: package != "jaxlib" and version(package)),
    ],
)
def test_another_machine_or_package_version_has_other_surroundings(
    of: Any, name: str, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        fingerprints, "_machine", fingerprints._machine.__wrapped__
    )  # without its cache
    usual = fingerprints.surroundings(jax.devices()[:1])
    with monkeypatch.context() as patch:
        patch.setattr(of, name, other, raising=False)  # not every system has sched_getaffinity
        assert fingerprints.surroundings(jax.devices()[:1]) != usual
