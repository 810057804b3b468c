"""The benchmark of the sinks, on a small environment, and its report."""

from __future__ import annotations

import json
from importlib import util
from typing import Any

import pytest

from configs import default
from hackmatrix.bench import sinks
from hackmatrix.bench.report import Report
from hackmatrix.bench.sinks import Cost, Found
from hackmatrix.train.config import resolve

SMALL = {"env": "gymnax:CartPole-v1", "num_envs": 8, "num_steps": 16, "hidden_dim": 16}


@pytest.fixture(scope="module")
def found() -> Found:
    given: dict[str, Any] = {**default.get_config(), **SMALL, "lr": 1e-3, "log_interval": 2}
    return sinks.measure(resolve(given, "cpu", 8), seconds=0)


def test_each_sink_is_measured_as_a_share_of_a_chunk(
    found: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["Console", "JsonLines", "TensorBoard"]
    assert [cost.sink for cost in found.costs] == [
        *names,
        *(["WeightsAndBiases"] if util.find_spec("wandb") else []),
    ]
    assert found.chunk_seconds > 0
    for cost in found.costs:
        assert cost.once > 0
        assert cost.of_training == pytest.approx(cost.a_chunk / found.chunk_seconds)
    assert found.setting.startswith("ppo on ")
    assert "8 x 16, 2 updates per chunk" in found.setting
    sinks.tell(found, Report(as_json=True))
    assert json.loads(capsys.readouterr().out)["of_training"] == found.of_training


@pytest.mark.parametrize(("a_chunk", "verdict"), [(0.004, "under"), (0.006, "OVER")])
def test_the_cost_of_all_sinks_together_is_compared_with_the_limit(
    a_chunk: float, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    costs = tuple(Cost(name, 0.5, a_chunk, a_chunk) for name in ("One", "Other"))
    sinks.tell(Found("a setting", 1.0, costs), Report(as_json=False))
    *_, heading, first, _, last = capsys.readouterr().out.splitlines()
    assert heading.endswith("of training")
    assert first.split() == ["One", "0.500", f"{1e3 * a_chunk:.3f}", f"{a_chunk:.4%}"]
    assert last == f"All sinks: {2 * a_chunk:.4%} of training, {verdict} the limit of 1%"
