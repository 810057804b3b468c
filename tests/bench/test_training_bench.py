"""The benchmark of training."""

from __future__ import annotations

import json
from unittest.mock import Mock

import jax
import pytest

from configs import default
from hackmatrix.bench import measuring, network, training
from hackmatrix.bench.report import Report
from hackmatrix.bench.timing import Rate
from hackmatrix.bench.training import Training, measure_training
from hackmatrix.errors import UserError
from hackmatrix.parallel.failures import out_of_memory_as_user_error
from tests.train.test_evaluator import GRID


def test_the_measured_compilation_does_not_load_from_a_cache() -> None:
    class Compiled(Exception):
        pass

    def compile_program() -> None:
        assert not jax.config.values["jax_enable_compilation_cache"]
        raise Compiled

    assert jax.config.values["jax_enable_compilation_cache"]
    with pytest.raises(Compiled):
        measure_training(Mock(compile=compile_program), seconds=0)
    assert jax.config.values["jax_enable_compilation_cache"]


def test_an_algorithm_without_play_and_learn_is_refused_before_measuring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measuring, "Program", lambda *_: Mock(algorithm=object()))
    with pytest.raises(UserError, match=r"algorithm=ppo: .* the algorithm must subclass"):
        measuring.measure_training(default.get_config(), 0, Mock())


def test_a_benchmark_that_would_resume_a_run_is_refused() -> None:
    raw = {**default.get_config(), "resume": "a-run"}
    with pytest.raises(UserError, match=r"^resume='a-run': no run is resumed here"):
        measuring.measure_training(raw, 0, Mock())


def test_training_its_halves_and_the_network_alone_are_measured_on_all_devices(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated devices share the cores of a CPU, so the network alone does the work of all of
    them. The memory that it needs does not count as training's.
    """
    monkeypatch.setattr(network, "work", alone := Mock(wraps=network.work))
    monkeypatch.setattr(training, "_peak_bytes", lambda: 1 + alone.call_count)
    raw = default.get_config()
    raw.update(env=GRID, num_envs=8, num_steps=4, num_minibatches=1, hidden_dim=8)
    measuring.measure_training(raw, 0, Report(as_json=True))
    machine, printed = map(json.loads, capsys.readouterr().out.splitlines())
    assert machine["devices"].startswith("8 x cpu (simulated: they share its cores), jax ")
    assert machine["versions"]["jax"] == jax.__version__
    assert printed["setting"].startswith(f"ppo on {GRID} with mlp, 8 x 4, 1 minibatches")
    assert alone.call_args.args[1] == 8
    assert printed["peak_bytes"] == 1
    for rate in ("training", "network_alone", "rollouts_alone", "updates_alone"):
        assert 0 < printed[rate]["min"] <= printed[rate]["median"] <= printed[rate]["max"]
    below, above = printed["of_network_quartiles"]
    assert below <= printed["of_network"] <= above
    assert printed["compilations"] == 0
    assert printed["state_bytes"] > 0


def test_running_out_of_memory_is_reported_in_one_line() -> None:
    refused = pytest.raises(UserError, match="out of memory: measure fewer boards")
    with refused, out_of_memory_as_user_error(measuring.TOO_LARGE):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")


def test_the_share_of_the_network_is_printed_with_its_quartiles(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fast, slow = Rate((2.0, 3.0, 8.0)), Rate((2.0, 2.0, 2.0))
    Report(as_json=False).training("8 x 4", Training(1.0, fast, slow, fast, fast, 0.0, 0, 1, 1, 1))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "of network" in line]
    expected = "of network 1.500 (1.250 - 2.750, quartiles of 3 pairs of updates)"
    assert line.split() == expected.split()
