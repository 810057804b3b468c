"""The real game in the real training program: a run is the same on 8 devices, on 4, 2 or 1, and on
1 where a step is one kernel, here an interpreted one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import jax
import numpy as np
import pytest

from hackmatrix.compile_cache import programs
from hackmatrix.errors import UserError
from hackmatrix.parallel import mesh, packed_scan
from hackmatrix.rl.train_state import NEVER
from hackmatrix.train.program import Program, _has_kernels
from tests.envs.toy import Toy
from tests.train.settings import config

UPDATES = 3


@dataclass
class Trained:
    before: Any
    after: Any
    metrics: dict[str, float]
    broken_at: int
    program: Program


@pytest.fixture(
    scope="module",
    params=[1, *(pytest.param(each, marks=pytest.mark.slow) for each in ("kernel", 2, 4))],
)
def fewer(request: pytest.FixtureRequest) -> Trained:
    """A run on 1 device, on 1 where a step of the game is one kernel, or on 2 or 4."""
    with_kernels = request.param == "kernel"
    devices = 1 if with_kernels else request.param
    return run(Program(config(kernels=with_kernels), over(devices)))


@pytest.fixture(scope="module")
def many() -> Trained:
    """A run on 8 devices."""
    return run(Program(config(), over(8)))


def over(devices: int) -> jax.sharding.Mesh:
    return mesh.over(jax.devices()[:devices])


def run(program: Program) -> Trained:
    state = program.first_state()
    before = jax.device_get(with_raw_key(state))
    state, report = program.run(state, UPDATES)
    metrics = {name: float(value) for name, value in report.metrics.items()}
    return Trained(
        before, jax.device_get(with_raw_key(state)), metrics, int(report.broken_at), program
    )


def with_raw_key(state: Any) -> Any:
    """Returns the state with its key as integers, which NumPy can hold."""
    learner = state.learner
    return state.replace(learner=learner.replace(key=jax.random.key_data(learner.key)))


@pytest.mark.parametrize("setting", [None, True, False])
@pytest.mark.parametrize("supported", [True, False])
def test_a_step_is_one_kernel_where_devices_support_it_unless_the_setting_decides(
    setting: bool | None, supported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = Mock(return_value=Toy())
    monkeypatch.setattr(Toy, "on", on)
    monkeypatch.setattr("hackmatrix.train.program.takes_kernels", lambda device: supported)
    Program(config(env="tests.envs.toy:Toy", kernels=setting), over(1))
    on.assert_called_once_with("cpu", supported if setting is None else setting)


def test_a_gpu_that_does_not_support_kernels_runs_none() -> None:
    older = Mock(platform="gpu", device_kind="NVIDIA A100", compute_capability="8.0")
    assert not _has_kernels(older, None)
    with pytest.raises(UserError, match="kernels=True: NVIDIA A100 does not support them"):
        _has_kernels(older, True)


def test_the_first_state_is_the_same_on_any_mesh(fewer: Trained, many: Trained) -> None:
    jax.tree.map(np.testing.assert_array_equal, fewer.before, many.before)


def test_a_later_start_trains_the_same_bit_for_bit_without_tracing_again(
    many: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_in_use", {})
    monkeypatch.setattr(Program, "lower", None)
    program = Program(config(run_name="another"), over(8))
    program.prefetch()
    again = run(program)
    assert again.metrics == many.metrics
    jax.tree.map(np.testing.assert_array_equal, again.after, many.after)


def test_boards_after_three_updates_are_exactly_the_same_on_any_mesh(
    fewer: Trained, many: Trained
) -> None:
    """So are the actions: a single other action would have led to another board."""
    players, expected = fewer.after.players, many.after.players
    jax.tree.map(np.testing.assert_array_equal, players.boards, expected.boards)
    np.testing.assert_array_equal(players.episode_length, expected.episode_length)
    assert players.episode_length.max() > 0
    steps = UPDATES * players.episode_length.size * config().num_steps
    assert fewer.metrics["train/num_episodes"] < steps


def test_parameters_after_three_updates_are_the_same_on_any_mesh(
    fewer: Trained, many: Trained
) -> None:
    learner, expected = fewer.after.learner, many.after.learner
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), learner, expected)
    before = fewer.before.learner.params
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), learner.params, before)
    assert max(jax.tree.leaves(moved)) > 1e-3


def test_metrics_are_the_same_on_any_mesh(fewer: Trained, many: Trained) -> None:
    assert fewer.metrics.keys() == many.metrics.keys()
    for name, value in fewer.metrics.items():
        np.testing.assert_allclose(many.metrics[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
    # The optimiser hides a gradient that is N times too large; its norm does not.
    norms = [each.metrics["train/grad_norm"] for each in (fewer, many)]
    assert norms[0] > 0.01
    np.testing.assert_allclose(norms[1] / norms[0], 1, rtol=1e-4)


def test_boards_that_are_packed_into_one_array_are_sharded_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GPUs pack them; shard_map checks which values vary between devices."""
    scan = Mock(side_effect=packed_scan.scan)
    monkeypatch.setattr(packed_scan, "scan", scan)
    program = Program(config(), over(8))
    program.env.packs_small_arrays = True
    program.lower()
    assert scan.called


def test_parts_of_the_reward_and_kinds_of_action_add_up(many: Trained) -> None:
    metrics = many.metrics
    parts = [value for name, value in metrics.items() if name.startswith("reward/")]
    kinds = [value for name, value in metrics.items() if name.startswith("actions/")]
    assert len(parts) == 15
    assert sum(parts) == pytest.approx(metrics["train/mean_reward"], abs=1e-5)
    assert sum(kinds) == pytest.approx(1, abs=1e-6)
    assert many.broken_at == NEVER


def test_there_is_one_all_reduce_of_gradients_a_minibatch(many: Trained) -> None:
    """It is in the loop over the minibatches, and reduces all leaves at once."""
    text = many.program.compile().as_text() or ""
    reductions = [line for line in text.splitlines() if re.search(r"\ball-reduce(-start)?\(", line)]
    shapes = {
        f"f32[{','.join(map(str, leaf.shape))}]"
        for leaf in jax.tree.leaves(many.after.learner.params)
    }
    assert len(shapes) >= 6
    of_gradients = [line for line in reductions if any(f"{shape}{{" in line for shape in shapes)]
    kernels = [line for line in of_gradients if "f32[1545,32]" in line]
    assert len(kernels) == 1
    assert all(shape in kernels[0] for shape in shapes)
    assert not re.search(r"\b(all-gather|all-to-all|collective-permute)(-start)?\(", text)
