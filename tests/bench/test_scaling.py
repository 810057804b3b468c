"""The scaling benchmark, on a small environment: that it says what it measured, and of what."""

import csv
from pathlib import Path

import pytest

from configs import default
from hackmatrix.bench import scaling, scaling_report
from hackmatrix.bench.timing import REPEATS

pytest.importorskip("matplotlib", reason="matplotlib, which draws the plot, is not installed")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def points() -> list[scaling.Point]:
    raw = {**default.get_config(), "env": "gymnax:CartPole-v1", "num_steps": 8, "lr": 1e-3}
    weak = scaling.curve(raw, "weak", [1, 2], envs=4, seconds=0)
    return [*weak, *scaling.curve(raw, "strong", [2], envs=4, seconds=0)]


def test_a_curve_has_more_environments_or_as_many(points: list[scaling.Point]) -> None:
    facts = [(each.kind, each.devices, each.envs_a_device, each.batch) for each in points]
    assert facts == [("weak", 1, 4, 32), ("weak", 2, 4, 64), ("strong", 2, 2, 32)]
    for each in points:
        assert each.repeats >= REPEATS
        assert 0 < each.step_p50 <= each.step_p95
        assert each.steps_per_second == pytest.approx(each.batch / each.step_p50)


def test_devices_of_a_cpu_are_called_simulated(points: list[scaling.Point]) -> None:
    assert [each.source for each in points] == ["measured", "simulated", "simulated"]


def test_efficiency_compares_with_the_first_point(points: list[scaling.Point]) -> None:
    one, two, _ = points
    assert one.efficiency == 1
    assert two.efficiency == pytest.approx(two.steps_per_second / one.steps_per_second / 2)


def test_table_plot_and_events_are_written(points: list[scaling.Point], tmp_path: Path) -> None:
    scaling_report.write(points, tmp_path)
    with (tmp_path / "scaling.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["source"] for row in rows] == ["measured", "simulated", "simulated"]
    assert all(row["revision"] for row in rows)
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in (tmp_path / "tensorboard").iterdir()} == {"weak", "strong"}


def test_the_table_has_a_line_a_point(
    points: list[scaling.Point], capsys: pytest.CaptureFixture[str]
) -> None:
    assert scaling_report.show(points, as_json=False) == points
    heading, *rows = capsys.readouterr().out.splitlines()
    assert len(heading.split("  ")) >= 12
    assert [row.split()[-1] for row in rows] == [each.source for each in points]
