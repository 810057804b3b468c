"""Expert iteration, on an environment whose values can all be worked out by hand."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest

from hackmatrix.errors import UserError
from hackmatrix.parallel import mesh
from hackmatrix.rl.evaluation import Evaluation
from hackmatrix.rl.tally import RETURN
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.config import Config
from hackmatrix.train.program import Program
from tests.envs.toy import LENGTH
from tests.search.open import Open
from tests.train.settings import config

OPEN, TOY = "tests.search.open:Open", "tests.envs.toy:Toy"
UPDATES = 12


def expert(**given: Any) -> Config:
    usual = {
        "algorithm": "expert", "env": OPEN, "simulations": 8, "gamma": 0.5, "num_envs": 16,
        "num_steps": 8, "lr": 0.02, "update_epochs": 4,
    }  # fmt: skip
    return config(**{**usual, **given})


@functools.cache
def over(devices: int) -> Program:
    return Program(expert(), mesh.over(jax.devices()[:devices]))


def trained(devices: int, updates: int) -> tuple[Program, Any, dict[str, Any]]:
    program = over(devices)
    state, report = program.run(program.first_state(), updates)
    return program, state, jax.device_get(report.metrics)


def test_the_network_learns_what_the_search_finds() -> None:
    program, state, metrics = trained(1, UPDATES)
    played = Evaluation(Open(), program.network, program.mesh).play(
        program.acting(state.learner), seed=1, games=32, greedy=True
    )
    assert played[RETURN].mean() > 0.95 * LENGTH
    assert metrics["train/policy_distance"] > 0
    assert all(np.isfinite(value) for value in metrics.values())


def test_values_are_learned_only_if_vf_coef_is_not_zero() -> None:
    program = Program(expert(scale_returns=False), mesh.over(jax.devices()[:1]))
    moved = []
    for vf_coef in (0.0, 0.5):  # one compiled program serves both
        program.config = expert(scale_returns=False, vf_coef=vf_coef)
        state = program.first_state()
        before = np.array(critic(state))
        state, _ = program.run(state, 1)
        moved.append(np.abs(critic(state) - before).max())
    assert moved[0] == 0 < moved[1]


def critic(state: TrainState) -> np.ndarray:
    return np.asarray(state.learner.params["params"]["critic"]["kernel"])


def test_an_update_is_the_same_on_any_mesh() -> None:
    one, four = (jax.device_get(trained(devices, 2)[1].learner.params) for devices in (1, 4))
    for alone, split in zip(*map(jax.tree.leaves, (one, four)), strict=True):
        np.testing.assert_allclose(alone, split, atol=1e-5)


def test_an_environment_that_cannot_be_searched_is_refused() -> None:
    message = (
        f"algorithm=expert is not supported by {TOY}, whose .* must override Environment.redrawn"
    )
    with pytest.raises(UserError, match=message):
        Program(expert(env=TOY), mesh.over(jax.devices()[:1]))
