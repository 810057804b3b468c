"""The curves of a run, read from its metrics.jsonl, which may still be growing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hackmatrix.envs import make
from hackmatrix.errors import UserError
from hackmatrix.train import algorithms
from hackmatrix.train.reporting import metric_catalogue
from hackmatrix.train.reporting.progress import STEPS_PER_SECOND
from hackmatrix.train.reporting.sinks import step_of_whole
from hackmatrix.train.runs import directory
from hackmatrix.train.runs.directory import Run

_STEP, _TIME = "step", "time"
_MOST_POINTS = 1000  # of a curve: a page is some hundred pixels wide
_MOST_IN_A_CHART = 20_000  # of the curves of all runs together: browsers have to open the page
_FEWEST_POINTS = 100  # of a curve, however many curves there are
_NO_DATE = 1e11  # seconds since 1970: three thousand years
_NO_VALUE = 1e300  # a page could not draw it

Line = dict[str, float]


@dataclass(frozen=True)
class Curves:
    """The values of each tag, one for each step, None where the run had none. `newest` has those of
    the last line.
    """

    steps: list[int]
    times: list[float]  # seconds since 1970
    trained: list[float]  # seconds of training so far, without pauses
    values: dict[str, list[float | None]]
    newest: dict[str, float]


def of_run(run: Run, runs: int = 1) -> Curves:
    """Returns the curves of a run, on a disk or in a bucket, for a page of that many runs."""
    env, algorithm = make(run.config.env), algorithms.find(run.config.algorithm)
    known = metric_catalogue.metrics(env, algorithm)
    highest = {metric.tag for metric in known if metric.is_highest}
    most = min(max(_MOST_IN_A_CHART // runs, _FEWEST_POINTS), _MOST_POINTS)
    return read(directory.with_local_files(run).metrics, highest, most)


def read(file: Path, highest: Collection[str] = (), most: int | None = _MOST_POINTS) -> Curves:
    """Returns the curves of a file in `most` points or fewer, each of which is the mean of a few
    lines or, for the tags in `highest`, their maximum. If `most` is None, each line is a point.
    """
    # The file is read twice, as the lines of a month of training take too much memory.
    try:
        with file.open("rb") as text:
            places = _places(text)
            few = -(-len(places) // most) if most else 1
            return _gathered(_lines_at(text, places), max(few, 1), highest, file)
    except FileNotFoundError as error:
        raise UserError(f"{file}: {error.strerror}; the run has no metrics yet") from None
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None


def _places(text: BinaryIO) -> list[int]:
    """Returns the offsets of the lines that count: not those that are damaged, nor those that a run
    has replaced, as it logs the steps after a checkpoint again when it resumes from it.
    """
    found: list[tuple[float, int]] = []
    place = 0
    for written in text:
        if (step := _step_of(written)) is not None:
            while found and found[-1][0] >= step:
                found.pop()
            found.append((step, place))
        place += len(written)
    return [place for _, place in found]


def _step_of(written: bytes) -> float | None:
    """Returns the step of a line, usually without parsing the rest; None if it is damaged."""
    if (step := step_of_whole(written)) is not None:
        return step
    line = _parsed(written)
    return line[_STEP] if line else None


def _lines_at(text: BinaryIO, places: list[int]) -> Iterator[Line]:
    for place in places:
        text.seek(place)
        if line := _parsed(text.readline()):
            yield line


def _parsed(written: bytes) -> Line | None:
    """Returns the numbers of a line that can be drawn; None if it is not one of ours."""
    try:
        line = json.loads(written)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    numbers = {
        tag: each
        for tag, each in line.items()
        if isinstance(each, int | float) and abs(each) < _NO_VALUE
    }
    if not {_STEP, _TIME} <= numbers.keys() or not 0 <= numbers[_TIME] < _NO_DATE:
        return None
    return numbers


def _gathered(lines: Iterator[Line], few: int, highest: Collection[str], file: Path) -> Curves:
    """Turns every `few` lines into one point."""
    steps: list[int] = []
    times: list[float] = []
    trained: list[float] = []
    values: dict[str, list[float | None]] = {}
    newest: Line = {}
    seconds = 0.0
    while some := list(itertools.islice(lines, few)):
        for line in some:
            seconds += _seconds_of(line, newest)
            newest = line
        for tag in {tag for line in some for tag in line} - {_STEP, _TIME}:
            told = [line[tag] for line in some if tag in line]
            before = values.setdefault(tag, [])
            before += [None] * (len(steps) - len(before))
            before.append(max(told) if tag in highest else sum(told) / len(told))
        steps.append(int(newest[_STEP]))
        times.append(newest[_TIME])
        trained.append(seconds)
    if not steps:
        raise UserError(f"{file} has no readable metrics; a run writes some every few updates")
    for each in values.values():
        each += [None] * (len(steps) - len(each))
    told_last = {tag: newest[tag] for tag in sorted(values) if tag in newest}
    return Curves(steps, times, trained, dict(sorted(values.items())), told_last)


def _seconds_of(line: Line, before: Line) -> float:
    """Returns how long the steps since the line before took, by their measured speed: the clock
    also runs where a run does not, and may be set back.
    """
    speed = line.get(STEPS_PER_SECOND, 0)
    return (line[_STEP] - before.get(_STEP, 0)) / speed if speed > 0 else 0
