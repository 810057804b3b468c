"""The initial state of a run is drawn by cached programs, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from configs import default
from hackmatrix.compile_cache import programs
from hackmatrix.envs.gymnax_adapter import FromGymnax
from hackmatrix.networks.actor_critic import Network
from hackmatrix.parallel import mesh
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.config import resolve
from hackmatrix.train.program import Program

SMALL = {"env": "gymnax:CartPole-v1", "num_envs": 8, "num_steps": 8, "hidden_dim": 8}
pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], tuple[Program, set[str]]]:
    """Restarts; returns the program, and which of its boards and its learner were traced."""
    traced: set[str] = set()
    reset, init = FromGymnax.reset, Network.init

    def noted_reset(env: FromGymnax, keys: Any) -> Any:
        traced.add("boards")
        return reset(env, keys)

    def noted_init(network: Network, key: Any) -> Any:
        traced.add("learner")
        return init(network, key)

    monkeypatch.setattr(FromGymnax, "reset", noted_reset)
    monkeypatch.setattr(Network, "init", noted_init)

    def start(devices: int) -> tuple[Program, set[str]]:
        programs._in_use.clear()
        traced.clear()
        config = resolve({**default.get_config(), **SMALL}, "cpu", devices)
        return Program(config, mesh.over(jax.devices()[:devices])), traced

    return start


@pytest.mark.parametrize("devices", [1, 2])
def test_at_the_second_start_the_first_state_is_the_same_and_nothing_of_it_is_traced(
    starts: Callable[[int], tuple[Program, set[str]]], devices: int
) -> None:
    program, traced = starts(devices)
    first = program.first_state()
    assert traced == {"boards", "learner"}
    program, traced = starts(devices)
    shapes, second = program.shapes, program.first_state()
    assert not traced
    assert second.learner.params
    for one, other in zip(*map(leaves, (first, second)), strict=True):
        np.testing.assert_array_equal(one, other)
    kinds = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.sharding), (shapes, second))
    assert kinds[0] == kinds[1]


def test_without_a_need_for_boards_none_are_drawn_or_traced(
    starts: Callable[[int], tuple[Program, set[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, _ = starts(1)
    monkeypatch.setattr(FromGymnax, "reset", None)
    assert program.num_parameters()
    assert program.learner_shapes


def leaves(state: TrainState) -> list[np.ndarray]:
    """Returns the leaves, with keys as numbers, which NumPy can hold."""
    key = jax.random.key_data(state.learner.key)
    state = state.replace(learner=state.learner.replace(key=key))
    return [np.asarray(each) for each in jax.tree.leaves(state)]
