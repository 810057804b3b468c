"""Metrics as they lie there, also of runs that are under way or were broken off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hackmatrix.errors import UserError
from hackmatrix.report import curves
from hackmatrix.train.reporting.progress import STEPS_PER_SECOND
from tests.report.told_runs import a_run


def written(file: Path, lines: list[dict[str, float]], rest: str = "") -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + rest)
    return file


def line(step: int, **values: float) -> dict[str, float]:
    return {"step": step, "time": 100.0 + step, **values}


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    file = written(tmp_path / "metrics", [line(1, a=2), line(2, a=3)], '{"step": 3, "time": 1')
    told = curves.read(file)
    assert (told.steps, told.times, told.values) == ([1, 2], [101, 102], {"a": [2, 3]})


def test_what_was_not_told_everywhere_has_gaps(tmp_path: Path) -> None:
    told = curves.read(written(tmp_path / "metrics", [line(1, a=2), line(2, b=3), line(3, a=4)]))
    assert told.values == {"a": [2, None, 4], "b": [None, 3, None]}
    assert told.newest == {"a": 4}  # of the last line: what is older is not told as new


def test_what_a_resumed_run_tells_again_holds(tmp_path: Path) -> None:
    lines = [line(1, a=1), line(2, a=2), line(3, a=3), line(2, a=20), line(4, a=4)]
    told = curves.read(written(tmp_path / "metrics", lines))
    assert (told.steps, told.values["a"]) == ([1, 2, 4], [1, 20, 4])


def test_a_long_run_is_drawn_with_means_of_a_few_points(tmp_path: Path) -> None:
    told = curves.read(written(tmp_path / "metrics", [line(each, a=each) for each in range(2500)]))
    assert told.steps[:2] == [2, 5]
    assert told.steps[-1] == 2499
    assert told.values["a"][:2] == [1, 4]
    assert len(told.steps) <= 1000
    assert told.newest == {"a": 2499}  # and no mean


@pytest.mark.parametrize(("runs", "points"), [(20, 1000), (50, 400), (1000, 100)])
def test_on_a_page_of_many_runs_each_has_fewer_points_but_enough_for_a_curve(
    tmp_path: Path, runs: int, points: int
) -> None:
    file = written(tmp_path / "metrics", [line(each, a=each) for each in range(2000)])
    assert len(curves.read(file, runs=runs).steps) == points


def test_of_what_is_highest_the_greatest_of_a_few_points_is_drawn(tmp_path: Path) -> None:
    lines = [line(each, best=9 if each == 40 else 3, a=each) for each in range(2500)]
    told = curves.read(written(tmp_path / "metrics", lines), {"best"})
    assert told.values["best"][12:15] == [3, 9, 3]
    assert told.values["a"][13] == 40


def test_the_highest_stage_stays_so_also_of_the_games_that_are_the_same(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    tags = "stats/highest_stage", "eval/highest_stage"
    lines = [line(each, **dict.fromkeys(tags, 9 if each == 40 else 3)) for each in range(2500)]
    written(run.metrics, lines)
    told = curves.of_run(run)
    assert all(9 in told.values[tag] for tag in tags)


def test_training_takes_what_was_measured_and_not_what_a_clock_says(tmp_path: Path) -> None:
    told_times = [100.0, 102.0, 90_000.0, 50.0]  # a day's pause; a clock that is set back
    lines = [
        {"step": 20 * number, "time": time, STEPS_PER_SECOND: 10.0}
        for number, time in enumerate(told_times, start=1)
    ]
    assert curves.read(written(tmp_path / "metrics", lines)).trained == [2, 4, 6, 8]


@pytest.mark.parametrize("number", ["NaN", "1e999", "-Infinity", "9" * 400])
def test_what_cannot_be_drawn_is_left_out(tmp_path: Path, number: str) -> None:
    file = tmp_path / "metrics"
    for key in ("step", "time", "a"):
        told = {"step": "2", "time": "5", "a": "7", key: number}
        damaged = ", ".join(f'"{name}": {each}' for name, each in told.items())
        file.write_text(f'{{"step": 1, "time": 4, "a": 6}}\n{{{damaged}}}\n')
        found = curves.read(file)
        assert found.values["a"] == ([6, None] if key == "a" else [6])
        assert found.times[-1] == (5 if key == "a" else 4)


def test_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    told = curves.read(written(tmp_path / "metrics", [line(1, a=2), line(2, a="two")]))  # type: ignore[arg-type]
    assert told.values == {"a": [2, None]}


@pytest.mark.parametrize(
    "text", [None, "", "nonsense\n", "[1]\n", '{"step": null, "time": 5}\n', '{"step": 1}\n']
)
def test_a_run_that_has_told_nothing_is_told_in_one_line(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "metrics"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError, match="metrics") as refused:
        curves.read(file)
    assert len(str(refused.value).splitlines()) == 1
