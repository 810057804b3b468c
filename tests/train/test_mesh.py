"""The same run on 1, 2 and 8 devices: the real game, the real training program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from hackmatrix.kept import programs
from hackmatrix.parallel import mesh
from hackmatrix.rl.train_state import NEVER
from hackmatrix.train.program import Program
from tests.train.settings import config

UPDATES = 3
DEVICES = (1, 2, 8)


@dataclass
class Trained:
    before: Any
    after: Any
    metrics: dict[str, float]
    broken_at: int
    program: Program


@pytest.fixture(scope="module")
def trained() -> dict[int, Trained]:
    """The run on each number of devices."""
    runs = {}
    for devices in DEVICES:
        program = Program(config(), mesh.over(jax.devices()[:devices]))
        state = program.first_state()
        before = jax.device_get(raw(state))
        state, report = program.run(state, UPDATES)
        metrics = {name: float(value) for name, value in report.metrics.items()}
        after = jax.device_get(raw(state))
        runs[devices] = Trained(before, after, metrics, int(report.broken_at), program)
    return runs


def raw(state: Any) -> Any:
    """With keys as numbers, which NumPy can hold."""
    learner = state.learner
    return state.replace(learner=learner.replace(key=jax.random.key_data(learner.key)))


@pytest.mark.parametrize("devices", DEVICES[1:])
def test_the_first_state_is_the_same_on_any_mesh(trained: dict[int, Trained], devices: int) -> None:
    jax.tree.map(np.testing.assert_array_equal, trained[1].before, trained[devices].before)


@pytest.mark.parametrize("devices", [1, 8])
def test_another_start_trains_the_same_bit_for_bit_without_tracing_again(
    trained: dict[int, Trained], devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_in_use", {})
    monkeypatch.setattr(Program, "lower", None)
    program = Program(config(run_name="another"), mesh.over(jax.devices()[:devices]))
    state, report = program.run(program.first_state(), UPDATES)
    assert {name: float(value) for name, value in report.metrics.items()} == trained[
        devices
    ].metrics
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(raw(state)), trained[devices].after)


@pytest.mark.parametrize("devices", DEVICES[1:])
def test_boards_after_three_updates_are_exactly_the_same(
    trained: dict[int, Trained], devices: int
) -> None:
    """And so the actions: one other action would have led to another board."""
    one, many = trained[1].after.players, trained[devices].after.players
    jax.tree.map(np.testing.assert_array_equal, one.boards, many.boards)
    np.testing.assert_array_equal(one.episode_length, many.episode_length)
    assert one.episode_length.max() > 0
    steps = UPDATES * one.episode_length.size * config().num_steps
    assert trained[1].metrics["train/num_episodes"] < steps


@pytest.mark.parametrize("devices", DEVICES[1:])
def test_parameters_after_three_updates_are_the_same(
    trained: dict[int, Trained], devices: int
) -> None:
    one, many = trained[1].after.learner, trained[devices].after.learner
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), one, many)
    moved = jax.tree.map(
        lambda a, b: np.abs(a - b).max(), one.params, trained[1].before.learner.params
    )
    assert max(jax.tree.leaves(moved)) > 1e-3


@pytest.mark.parametrize("devices", DEVICES[1:])
def test_metrics_are_the_same(trained: dict[int, Trained], devices: int) -> None:
    one, many = trained[1].metrics, trained[devices].metrics
    assert one.keys() == many.keys()
    for name, value in one.items():
        np.testing.assert_allclose(many[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
    # The optimiser forgives a gradient that is N times too large; this does not.
    assert one["train/grad_norm"] > 0.01
    np.testing.assert_allclose(many["train/grad_norm"] / one["train/grad_norm"], 1, rtol=1e-4)


def test_parts_of_the_reward_and_kinds_of_action_add_up(trained: dict[int, Trained]) -> None:
    metrics = trained[8].metrics
    parts = [value for name, value in metrics.items() if name.startswith("reward/")]
    kinds = [value for name, value in metrics.items() if name.startswith("actions/")]
    assert len(parts) == 15
    assert sum(parts) == pytest.approx(metrics["train/mean_reward"], abs=1e-5)
    assert sum(kinds) == pytest.approx(1, abs=1e-6)
    assert trained[8].broken_at == NEVER


def test_there_is_one_all_reduce_of_gradients_a_minibatch(trained: dict[int, Trained]) -> None:
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


def test_it_is_the_same_run_where_a_step_is_one_kernel() -> None:
    """Bit for bit, where both are compiled as for users: what tests use rounds each as it likes."""
    ends = []
    for kernels in (False, True):
        program = Program(config(kernels=kernels), mesh.over(jax.devices()[:1]))
        program._compiled = program.lower().compile({"xla_cpu_use_fusion_emitters": True})
        state, report = program.run(program.first_state(), UPDATES)
        ends.append(jax.device_get((raw(state), report.metrics)))
    jax.tree.map(np.testing.assert_array_equal, *ends)
