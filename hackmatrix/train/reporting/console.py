"""The console of a run: a summary at its start, a line a chunk, and the outcome at its end."""

from __future__ import annotations

import math
import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import TextIO

from hackmatrix import streams
from hackmatrix.envs.metrics import Metric
from hackmatrix.train.config import Config
from hackmatrix.train.reporting.progress import HOURS_LEFT, STEPS_PER_SECOND
from hackmatrix.train.reporting.sinks import Metrics
from hackmatrix.train.runs.clock import Clock
from hackmatrix.train.runs.protocol import Place
from hackmatrix.train.waiting import Note, waiting

LINES_A_PAGE = 20  # lines after which the titles are repeated
_WIDTH = 100
_BAR = 7
_WIDE = 999.99  # a number with as many digits as a column has room for

_BOLD, _DIM, _GREEN, _YELLOW = "1", "2", "32", "33"


@dataclass(frozen=True)
class Column:
    """A column of the console, for a metric with this tag, if there is one."""

    title: str
    width: int
    tag: str
    show: Callable[[float], str]


class Console:
    """A sink for people: a line for each chunk, with the metrics that declare a column. It uses
    colours and line-drawing characters only where the output supports them.
    """

    def __init__(
        self,
        config: Config,
        metrics: Iterable[Metric],
        out: TextIO | None = None,
        clock: Clock | None = None,
    ) -> None:
        # Standard output may have been closed from the start.
        self._out = out or sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        self._has_colours = streams.has_colours(self._out)
        self._bar = "━─" if _can_show(self._out, "━─") else "#."
        self._last_step, self._limit = config.last_step, config.time_limit_minutes
        self._clock = clock or Clock()
        self._declared = (*_SPEED, *map(_column, (each for each in metrics if each.column)))
        self._columns: tuple[Column, ...] = ()
        self._lines = 0
        self._last: Metrics = {}

    def head(self, title: str, lines: Iterable[str]) -> None:
        """Prints a title and a summary before the run."""
        self._print(self._in(_BOLD, title))
        for line in lines:
            self._print(f"  {line}")
        self._print("")

    def write(self, step: int, metrics: Metrics) -> None:
        """Prints the line of a chunk. The metrics of the first chunk decide on the columns."""
        self._columns = self._columns or tuple(
            each for each in self._declared if each.tag in metrics
        )
        if self._lines % LINES_A_PAGE == 0:
            titles = [each.title.rjust(each.width) for each in self._columns]
            self._print(self._in(_DIM, "  ".join(["progress".ljust(_BAR + 5), "steps", *titles])))
        self._lines += 1
        self._last = metrics
        values = [
            each.show(metrics.get(each.tag, math.nan)).rjust(each.width) for each in self._columns
        ]
        self._print("  ".join([self._progress(step), _thousands(step).rjust(5), *values]))

    def say(self, line: str) -> None:
        self._print(f"  {line}")

    def waiting(self, what: str) -> AbstractContextManager[Note]:
        """Prints progress within a context (hackmatrix.train.waiting)."""
        return waiting(what, self.say)

    def warn(self, line: str) -> None:
        for part in textwrap.wrap(f"warning: {line}", _WIDTH - 4, subsequent_indent="  "):
            self._print(self._in(_YELLOW, f"  {part}"))

    def end(self, how: str, step: int, run: Place, *, goes_on: bool = False) -> None:
        """Prints how the session ended and how long it took, what the run reached, where it is and
        how to continue it.
        """
        took = _duration(self._clock.seconds())
        metrics = self._last
        reached = [
            f"{each.title} {each.show(metrics[each.tag])}"
            for each in self._columns[len(_SPEED) :]
            if math.isfinite(metrics.get(each.tag, math.nan))
        ]
        self._print("")
        self._print(self._in(_BOLD, f"{how} at step {step:,}, after {took}"))
        if reached:
            self._print(f"  last chunk   {', '.join(reached)}")
        self._print(f"  run          {run}")
        there = shlex.quote(str(run))
        if goes_on:
            self._print(f"  resume       python -m launch.train --resume={there}")
        self._print(f"  report       python -m launch.report --run={there}")
        self._print(f"  TensorBoard  tensorboard --logdir={shlex.quote(str(run.parent))}")

    def close(self) -> None:
        """Does nothing: every line is flushed when it is printed."""

    def _progress(self, step: int) -> str:
        """Draws the progress by steps or, with a time limit, by training time, if further."""
        of_time = self._clock.trained() / (60 * self._limit) if self._limit else 0.0
        share = min(max(step / self._last_step(step), of_time), 1.0)
        full = round(_BAR * share)
        done, rest = self._bar[0] * full, self._bar[1] * (_BAR - full)
        return f"{self._in(_GREEN, done)}{self._in(_DIM, rest)} {100 * share:3.0f}%"

    def _in(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._has_colours and text else text

    def _print(self, line: str) -> None:
        with suppress(OSError):  # the terminal may be closed; files have the metrics
            try:
                print(line, file=self._out, flush=True)
            except UnicodeEncodeError as error:  # a path may have any letter
                shown = line.encode(error.encoding, "replace").decode(error.encoding)
                print(shown, file=self._out, flush=True)


def _column(metric: Metric) -> Column:
    width = max(len(metric.column), len(metric.shown(_WIDE)))
    return Column(metric.column, width, metric.tag, metric.shown)


def _thousands(value: float) -> str:
    """Formats a number with three digits and a unit: 950, 12.1k, 5.24M."""
    value = float(f"{value:.3g}")
    for unit in ("", "k", "M", "G", "T", "P"):
        if value < 1000 or unit == "P":
            break
        value /= 1000
    digits = (value < 10) + (value < 100) if unit else 0
    return f"{value:.{digits}f}{unit}"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours:02}h"
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {seconds:02}s" if minutes else f"{seconds}s"


def _can_show(out: TextIO, text: str) -> bool:
    try:
        text.encode(out.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _left(hours: float) -> str:
    return _duration(3600 * hours) if math.isfinite(hours) else "-"


_SPEED = (
    Column("steps/s", 7, STEPS_PER_SECOND, _thousands),
    Column("left", 7, HOURS_LEFT, _left),
)
