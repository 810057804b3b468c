"""The same run on 1 and on 8 devices, and where a step is one kernel (here an interpreted one): the
real game, the real training program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import jax
import numpy as np
import pytest

from hackmatrix.kept import programs
from hackmatrix.parallel import mesh, together
from hackmatrix.rl.train_state import NEVER
from hackmatrix.train.program import Program
from tests.train.settings import config

UPDATES = 3
DEVICES = (1, 8)
AS_KERNEL = "a step as one kernel"
OTHERS = (*DEVICES[1:], AS_KERNEL)


@dataclass
class Trained:
    before: Any
    after: Any
    metrics: dict[str, float]
    broken_at: int
    program: Program


Runs = dict[int | str, Trained]


@pytest.fixture(scope="module")
def trained() -> Runs:
    """The run on each number of devices, and on one where a step of the game is one kernel."""
    runs: Runs = {devices: run(Program(config(), over(devices))) for devices in DEVICES}
    runs[AS_KERNEL] = run(Program(config(kernels=True), over(1)))
    return runs


def over(devices: int) -> jax.sharding.Mesh:
    return mesh.over(jax.devices()[:devices])


def run(program: Program) -> Trained:
    state = program.first_state()
    before = jax.device_get(raw(state))
    state, report = program.run(state, UPDATES)
    metrics = {name: float(value) for name, value in report.metrics.items()}
    return Trained(before, jax.device_get(raw(state)), metrics, int(report.broken_at), program)


def raw(state: Any) -> Any:
    """With keys as numbers, which NumPy can hold."""
    learner = state.learner
    return state.replace(learner=learner.replace(key=jax.random.key_data(learner.key)))


@pytest.mark.parametrize("other", OTHERS)
def test_the_first_state_is_the_same(trained: Runs, other: int | str) -> None:
    jax.tree.map(np.testing.assert_array_equal, trained[1].before, trained[other].before)


@pytest.mark.parametrize("devices", [1, 8])
def test_another_start_trains_the_same_bit_for_bit_without_tracing_again(
    trained: Runs, devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_in_use", {})
    monkeypatch.setattr(Program, "lower", None)
    again = run(Program(config(run_name="another"), over(devices)))
    assert again.metrics == trained[devices].metrics
    jax.tree.map(np.testing.assert_array_equal, again.after, trained[devices].after)


@pytest.mark.parametrize("other", OTHERS)
def test_boards_after_three_updates_are_exactly_the_same(trained: Runs, other: int | str) -> None:
    """And so the actions: one other action would have led to another board."""
    one, many = trained[1].after.players, trained[other].after.players
    jax.tree.map(np.testing.assert_array_equal, one.boards, many.boards)
    np.testing.assert_array_equal(one.episode_length, many.episode_length)
    assert one.episode_length.max() > 0
    steps = UPDATES * one.episode_length.size * config().num_steps
    assert trained[1].metrics["train/num_episodes"] < steps


@pytest.mark.parametrize("other", OTHERS)
def test_parameters_after_three_updates_are_the_same(trained: Runs, other: int | str) -> None:
    one, many = trained[1].after.learner, trained[other].after.learner
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), one, many)
    moved = jax.tree.map(
        lambda a, b: np.abs(a - b).max(), one.params, trained[1].before.learner.params
    )
    assert max(jax.tree.leaves(moved)) > 1e-3


@pytest.mark.parametrize("other", OTHERS)
def test_metrics_are_the_same(trained: Runs, other: int | str) -> None:
    one, many = trained[1].metrics, trained[other].metrics
    assert one.keys() == many.keys()
    for name, value in one.items():
        np.testing.assert_allclose(many[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
    # The optimiser forgives a gradient that is N times too large; this does not.
    assert one["train/grad_norm"] > 0.01
    np.testing.assert_allclose(many["train/grad_norm"] / one["train/grad_norm"], 1, rtol=1e-4)


def test_boards_that_are_carried_as_one_array_are_split_over_devices_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on GPUs; shard_map checks what differs between devices."""
    scan = Mock(side_effect=together.scan)
    monkeypatch.setattr(together, "scan", scan)
    program = Program(config(), over(8))
    program.env.is_carried_together = True
    program.lower()
    assert scan.called


def test_parts_of_the_reward_and_kinds_of_action_add_up(trained: Runs) -> None:
    metrics = trained[8].metrics
    parts = [value for name, value in metrics.items() if name.startswith("reward/")]
    kinds = [value for name, value in metrics.items() if name.startswith("actions/")]
    assert len(parts) == 15
    assert sum(parts) == pytest.approx(metrics["train/mean_reward"], abs=1e-5)
    assert sum(kinds) == pytest.approx(1, abs=1e-6)
    assert trained[8].broken_at == NEVER


def test_there_is_one_all_reduce_of_gradients_a_minibatch(trained: Runs) -> None:
    """It stands in the loop over the minibatches, and takes all leaves at once."""
    text = trained[8].program.compile().as_text() or ""
    reductions = [line for line in text.splitlines() if re.search(r"\ball-reduce(-start)?\(", line)]
    shapes = {
        f"f32[{','.join(map(str, leaf.shape))}]"
        for leaf in jax.tree.leaves(trained[8].after.learner.params)
    }
    assert len(shapes) >= 6
    of_gradients = [line for line in reductions if any(f"{shape}{{" in line for shape in shapes)]
    kernels = [line for line in of_gradients if "f32[1545,32]" in line]
    assert len(kernels) == 1
    assert all(shape in kernels[0] for shape in shapes)
    assert not re.search(r"\b(all-gather|all-to-all|collective-permute)(-start)?\(", text)
