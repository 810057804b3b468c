"""The curves of a run, read from its metrics.jsonl, which may still be growing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hackmatrix.errors import UserError

_STEP, _TIME = "step", "time"
_MOST_POINTS = 1000  # of a curve: a page is some hundred pixels wide


class NoCurves(UserError):
    """There is nothing to draw; one line says why."""


@dataclass(frozen=True)
class Curves:
    """By tag a value for each of the steps, or None where the run had none. `newest` are those of
    the last one.
    """

    steps: list[int]
    times: list[float]  # seconds since 1970
    values: dict[str, list[float | None]]
    newest: dict[str, float]


def read(file: Path) -> Curves:
    """The curves of a file, in as many points as a page can show."""
    return _thinned(read_whole(file))


def read_whole(file: Path) -> Curves:
    """Lines that are cut off are left out. A run that went on from a checkpoint tells of the steps
    after it once more: the later lines hold.
    """
    lines: list[dict[str, float]] = []
    try:
        for line in _sound_lines(file):
            while lines and lines[-1][_STEP] >= line[_STEP]:
                lines.pop()
            lines.append(line)
    except OSError as error:
        raise NoCurves(f"{file}: {error.strerror}; the run has no metrics yet") from None
    if not lines:
        raise NoCurves(
            f"{file} has no metrics that can be read; a run writes some every few updates"
        )
    newest = lines[-1]
    tags = sorted({tag for line in lines for tag in line} - {_STEP, _TIME})
    return Curves(
        steps=[int(line[_STEP]) for line in lines],
        times=[line[_TIME] for line in lines],
        values={tag: [line.get(tag) for line in lines] for tag in tags},
        newest={tag: newest[tag] for tag in tags if tag in newest},
    )


def _sound_lines(file: Path) -> Iterator[dict[str, float]]:
    with file.open("rb") as lines:
        for text in lines:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                numbers = {tag: each for tag, each in line.items() if isinstance(each, int | float)}
                if {_STEP, _TIME} <= numbers.keys():
                    yield numbers


def _thinned(curves: Curves) -> Curves:
    """The mean of every few points, where there are more than a page can show."""
    few = -(-len(curves.steps) // _MOST_POINTS)
    starts = range(0, len(curves.steps), few)
    return Curves(
        steps=[curves.steps[start : start + few][-1] for start in starts],
        times=[curves.times[start : start + few][-1] for start in starts],
        values={
            tag: [_mean(values[start : start + few]) for start in starts]
            for tag, values in curves.values.items()
        },
        newest=curves.newest,
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
