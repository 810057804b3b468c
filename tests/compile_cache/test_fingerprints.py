"""Programs are told apart by all that they are made of."""

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


def test_the_same_parts_are_told_alike() -> None:
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
def test_another_part_is_told_otherwise(other: Callable[..., Any]) -> None:
    assert fingerprints.of(other) != fingerprints.of(player(Actor(GAME, network())))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (functools.partial(draws.seed_key, seed=1), functools.partial(draws.seed_key, seed=2)),
        (draws.Purpose.SHUFFLE, draws.Purpose.PARAMETERS),
        (np.zeros((3, 1)), np.zeros(3)),
    ],
)
def test_another_value_is_told_otherwise(one: Any, other: Any) -> None:
    assert fingerprints.of(one) != fingerprints.of(other)


def test_arrays_that_are_built_in_are_told_by_what_they_hold_and_where() -> None:
    arrays = [
        jnp.zeros(3),
        jnp.ones(3),
        jnp.zeros(3, jnp.int32),
        jnp.zeros((3, 1)),
        jax.device_put(jnp.zeros(3), jax.devices()[0]),
        jax.device_put(jnp.zeros(3), jax.devices()[1]),
    ]
    told = [fingerprints.of(functools.partial(draws.seed_key, each)) for each in arrays]
    assert len({*told}) == len(arrays)
    assert told[0] == fingerprints.of(functools.partial(draws.seed_key, jnp.zeros(3)))


@pytest.mark.parametrize(
    "changes", [{"games": 9}, {"signal": RewardSignal(0.9, False, False)}, {"env": GAME.limited(9)}]
)
def test_planners_are_told_apart(changes: dict[str, Any]) -> None:
    other = dataclasses.replace(planner(), **changes)
    assert fingerprints.of(other.look_ahead) != fingerprints.of(planner().look_ahead)


def test_environments_of_gymnax_are_told_with_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    told = fingerprints.of(make("gymnax:CartPole-v1"))
    assert told == fingerprints.of(make("gymnax:CartPole-v1"))
    assert told != fingerprints.of(make("gymnax:Acrobot-v1"))
    assert told != fingerprints.of(make("gymnax:CartPole-v1").limited(9))
    monkeypatch.setattr(
        fingerprints, "source_hash", lambda package: f"other sources of {package.name}"
    )
    assert "other sources of gymnax" in fingerprints.of(make("gymnax:CartPole-v1"))


class Foreign:
    """From outside of the package."""


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
def test_what_may_change_without_this_package_is_untold(part: Any) -> None:
    with pytest.raises(fingerprints.Unknown):
        fingerprints.of(part)


def test_arguments_of_other_shapes_types_or_places_are_told_apart() -> None:
    here = jax.devices()[1]
    many = [
        np.zeros(3, np.float32),
        np.zeros(4, np.float32),
        np.zeros(3, np.int32),
        {"name": np.zeros(3, np.float32)},
        jax.device_put(np.zeros(3, np.float32), here),
        jnp.float32(0),
        jnp.asarray(0.0),  # of a weak type
    ]
    assert len({fingerprints.arguments(each) for each in many}) == len(many)


def test_surroundings_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    devices = jax.devices()[:1]
    usual = fingerprints.surroundings(devices)
    assert fingerprints.surroundings(devices) == usual
    assert fingerprints.surroundings(jax.devices()[1:2]) != usual
    here = {name: getattr(devices[0], name) for name in ("id", "device_kind", "process_index")}
    for elsewhere in ({}, {"process_index": 1}, {"coords": (0, 0, 1)}, {"slice_index": 1}):
        device: Any = SimpleNamespace(client=devices[0].client, **{**here, **elsewhere})
        assert (fingerprints.surroundings([device]) == usual) == (not elsewhere)
    with jax.default_matmul_precision("highest"):
        assert fingerprints.surroundings(devices) != usual
    for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "--xla_cpu_enable_fast_math=true")
            assert fingerprints.surroundings(devices) != usual
    flags = tmp_path / "flags"
    with monkeypatch.context() as patch:
        patch.setenv("XLA_FLAGS", str(flags))
        told = {fingerprints.surroundings(devices)}  # of a file that is not there
        for each in ("--xla_cpu_enable_fast_math=true", "--xla_cpu_enable_fast_math=false"):
            flags.write_text(each)
            told.add(fingerprints.surroundings(devices))
        assert len({usual, *told}) == 4


def one_device(**others: Any) -> Any:
    """The first, but for what its compiler tells of itself."""
    device = jax.devices()[0]
    of_client = ("platform", "platform_version", "process_index", "devices")
    client = SimpleNamespace(**{name: getattr(device.client, name) for name in of_client} | others)
    here = {name: getattr(device, name) for name in ("id", "device_kind", "process_index")}
    return SimpleNamespace(client=client, **here)


@pytest.mark.parametrize(
    "other",
    [
        {"platform": "tpu"},
        {"platform_version": "another"},
        {"process_index": lambda: 1},
        {"devices": lambda: 9 * jax.devices()},
    ],
)
def test_surroundings_of_another_compiler_are_told_apart(other: dict[str, Any]) -> None:
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
def test_surroundings_on_another_machine_are_told_apart(
    of: Any, name: str, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        fingerprints, "_machine", fingerprints._machine.__wrapped__
    )  # what it is by now
    usual = fingerprints.surroundings(jax.devices()[:1])
    with monkeypatch.context() as patch:
        patch.setattr(of, name, other, raising=False)  # not every system tells of cores
        assert fingerprints.surroundings(jax.devices()[:1]) != usual
