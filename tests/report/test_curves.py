"""Metrics are read from their files, also those of unfinished and interrupted runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hackmatrix.errors import UserError
from hackmatrix.report import curves
from hackmatrix.train.reporting.progress import STEPS_PER_SECOND
from tests.report.told_runs import create_run


def write_lines(file: Path, lines: list[dict[str, float]], rest: str = "") -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + rest)
    return file


def line(step: int, **values: float) -> dict[str, float]:
    return {"step": step, "time": 100.0 + step, **values}


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "metrics", [line(1, a=2), line(2, a=3)], '{"step": 3, "time": 1')
    found = curves.read(file)
    assert (found.steps, found.times, found.values) == ([1, 2], [101, 102], {"a": [2, 3]})


def test_a_metric_that_some_lines_lack_has_gaps(tmp_path: Path) -> None:
    found = curves.read(
        write_lines(tmp_path / "metrics", [line(1, a=2), line(2, b=3), line(3, a=4)])
    )
    assert found.values == {"a": [2, None, 4], "b": [None, 3, None]}
    assert found.newest == {"a": 4}  # of the last line only: older values are not the newest


def test_lines_that_a_resumed_run_writes_again_replace_the_old_ones(tmp_path: Path) -> None:
    lines = [line(1, a=1), line(2, a=2), line(3, a=3), line(2, a=20), line(4, a=4)]
    found = curves.read(write_lines(tmp_path / "metrics", lines))
    assert (found.steps, found.values["a"]) == ([1, 2, 4], [1, 20, 4])


def test_a_long_run_is_drawn_with_means_of_a_few_lines(tmp_path: Path) -> None:
    found = curves.read(
        write_lines(tmp_path / "metrics", [line(each, a=each) for each in range(2500)])
    )
    assert found.steps[:2] == [2, 5]
    assert found.steps[-1] == 2499
    assert found.values["a"][:2] == [1, 4]
    assert len(found.steps) <= 1000
    assert found.newest == {"a": 2499}  # not a mean


@pytest.mark.parametrize(("runs", "points"), [(20, 1000), (50, 400), (1000, 100)])
def test_on_a_page_of_many_runs_each_has_fewer_points_but_enough_for_a_curve(
    tmp_path: Path, runs: int, points: int
) -> None:
    run = create_run(tmp_path)
    write_lines(run.metrics, [line(each, a=each) for each in range(2000)])
    assert len(curves.of_run(run, runs).steps) == points


def test_a_metric_of_the_highest_is_drawn_with_maxima_of_a_few_lines(tmp_path: Path) -> None:
    lines = [line(each, best=9 if each == 40 else 3, a=each) for each in range(2500)]
    found = curves.read(write_lines(tmp_path / "metrics", lines), {"best"})
    assert found.values["best"][12:15] == [3, 9, 3]
    assert found.values["a"][13] == 40


def test_highest_stages_and_skipped_updates_are_drawn_with_maxima(tmp_path: Path) -> None:
    run = create_run(tmp_path)
    tags = "stats/highest_stage", "eval/highest_stage", "train/skipped_updates"
    lines = [line(each, **dict.fromkeys(tags, 9 if each == 40 else 3)) for each in range(2500)]
    write_lines(run.metrics, lines)
    found = curves.of_run(run)
    assert all(9 in found.values[tag] for tag in tags)


def test_training_time_is_that_of_the_measured_speed_and_not_of_the_clock(tmp_path: Path) -> None:
    times = [100.0, 102.0, 90_000.0, 50.0]  # a pause of a day, then a clock that is set back
    lines = [
        {"step": 20 * number, "time": time, STEPS_PER_SECOND: 10.0}
        for number, time in enumerate(times, start=1)
    ]
    assert curves.read(write_lines(tmp_path / "metrics", lines)).trained == [2, 4, 6, 8]


@pytest.mark.parametrize("number", ["NaN", "1e999", "-Infinity", "9" * 400])
def test_numbers_that_cannot_be_drawn_are_left_out(tmp_path: Path, number: str) -> None:
    file = tmp_path / "metrics"
    for key in ("step", "time", "a"):
        fields = {"step": "2", "time": "5", "a": "7", key: number}
        damaged = ", ".join(f'"{name}": {each}' for name, each in fields.items())
        file.write_text(f'{{"step": 1, "time": 4, "a": 6}}\n{{{damaged}}}\n')
        found = curves.read(file)
        assert found.values["a"] == ([6, None] if key == "a" else [6])
        assert found.times[-1] == (5 if key == "a" else 4)


def test_a_value_that_is_not_a_number_is_left_out(tmp_path: Path) -> None:
    found = curves.read(write_lines(tmp_path / "metrics", [line(1, a=2), line(2, a="two")]))  # type: ignore[arg-type]
    assert found.values == {"a": [2, None]}


@pytest.mark.parametrize(
    "text", [None, "", "nonsense\n", "[1]\n", '{"step": null, "time": 5}\n', '{"step": 1}\n']
)
def test_a_run_without_metrics_is_reported_in_one_line(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "metrics"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError, match="metrics") as refused:
        curves.read(file)
    assert len(str(refused.value).splitlines()) == 1


def test_metrics_that_cannot_be_read_are_not_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^{tmp_path}: Is a directory$"):
        curves.read(tmp_path)
