"""Where metrics go: several sinks as one, the list of sinks besides the console, and the context
that each is opened with.

To add a sink of your own, append to SINKS before training begins. Nothing here needs JAX.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from hackmatrix import streams
from hackmatrix.train.config.summary import with_unit
from hackmatrix.train.reporting.sinks import (
    Game,
    JsonLines,
    Metrics,
    Reopens,
    ShowsGames,
    Sink,
    TensorBoard,
)
from hackmatrix.train.reporting.weights_and_biases import WeightsAndBiases
from hackmatrix.train.runs.directory import Run

_TRIED_EVERY = 60.0  # seconds, times those that a try took: retries take at most 1/60 of the time
_MOST_WAITING = 5000  # lines of metrics for a failing sink; the oldest are dropped
_LONGEST_ERROR = 400  # characters


@dataclass(eq=False)
class _Open:
    """An open sink, the lines waiting to be written and, while it fails, when it is retried."""

    sink: Sink
    waiting: deque[tuple[int, Metrics, float]] = field(
        default_factory=lambda: deque(maxlen=_MOST_WAITING)
    )
    retry_at: float | None = None

    @property
    def name(self) -> str:
        return type(self.sink).__name__


class Sinks:
    """Several sinks as one. A full disk or a fault of a library should not end a run: a failing
    sink is reported once. A sink that `Reopens` is retried, and gets the missing lines later; any
    other is dropped. `show_game` may be called from another thread.
    """

    def __init__(
        self,
        *sinks: Sink,
        say: Callable[[str], None] = streams.say,
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        """`confirm` raises an error if this process no longer owns the run."""
        self._open = [_Open(sink) for sink in sinks]
        self._say, self._confirm = say, confirm
        self._lock = threading.RLock()

    def write(self, step: int, metrics: Metrics) -> None:
        self._confirm()
        with self._lock:
            for each in list(self._open):
                each.waiting.append((step, metrics, time.time()))
                if each.retry_at is None or time.monotonic() >= each.retry_at:
                    self._write_all(each)

    def show_game(self, step: int, game: Game) -> None:
        with self._lock:
            for each in list(self._open):
                if isinstance(each.sink, ShowsGames) and each.retry_at is None:
                    self._guard(each, partial(each.sink.show_game, step, game))

    def catch_up(self) -> None:
        """Tries again to write the lines that could not be written."""
        self._confirm()
        with self._lock:
            for each in list(self._open):
                self._write_all(each)

    def close(self) -> None:
        with self._lock:
            for each in self._open:
                if isinstance(each.sink, Reopens) and (lacking := len(each.waiting)):
                    self._say(f"{each.name}: {with_unit(lacking, 'line')} could not be written")
                try:
                    each.sink.close()
                except Exception as error:
                    self._say(f"{each.name} failed: {_in_a_line(error)}")
            self._open.clear()

    def _write_all(self, each: _Open) -> None:
        written = 0
        while each.waiting and self._guard(each, partial(_write, each.sink, *each.waiting[0])):
            each.waiting.popleft()
            written += 1
        if written and not each.waiting and each.retry_at is not None:
            each.retry_at = None
            self._say(f"{each.name} works again")

    def _guard(self, each: _Open, action: Callable[[], None]) -> bool:
        """Runs an action of a sink; returns whether it succeeded."""
        began = time.monotonic()
        try:
            action()
        except Exception as error:
            with suppress(Exception):  # it writes its buffer again, which may fail again
                each.sink.close()
            self._note_failure(each, _in_a_line(error), time.monotonic() - began)
            return False
        return True

    def _note_failure(self, each: _Open, error: str, seconds: float) -> None:
        if not isinstance(each.sink, Reopens):
            self._open.remove(each)
            self._say(f"{each.name} failed; the run goes on without it: {error}")
            return
        if each.retry_at is None:
            self._say(f"{each.name} failed; the run goes on, and retries it regularly: {error}")
        each.retry_at = time.monotonic() + _TRIED_EVERY * max(seconds, 1)


def _write(sink: Sink, step: int, metrics: Metrics, at: float) -> None:
    if isinstance(sink, Reopens):
        sink.write_late(step, metrics, at)
    else:
        sink.write(step, metrics)


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_ERROR]


@dataclass(frozen=True)
class SinkContext:
    """What a sink is opened with: the run, the environment step from which it is resumed (None for
    a new run), and a function that prints a line.
    """

    run: Run
    resumed_at: int | None
    say: Callable[[str], None]


def _json_lines(context: SinkContext) -> Sink:
    return JsonLines(context.run.metrics, context.resumed_at)


def _tensorboard(context: SinkContext) -> Sink:
    run, step = context.run, context.resumed_at
    purge_step = None if step is None else step + 1
    return TensorBoard(run.tensorboard, purge_step, run.config.settings(), _in_the_bucket(run))


def _in_the_bucket(run: Run) -> list[str]:
    """Returns the names of the TensorBoard files in the run's bucket; none if it is unavailable."""
    if run.bucket:
        with suppress(OSError):
            return run.lasting(run.tensorboard).names()
    return []


def _weights_and_biases(context: SinkContext) -> Sink | None:
    if not context.run.config.wandb:
        return None
    rewind_to = context.resumed_at if context.run.config.rewind else None
    return WeightsAndBiases(context.run, rewind_to, say=context.say)


# Each opens and returns its sink, or returns None if it is not wanted. Only process 0 calls them.
SINKS: list[Callable[[SinkContext], Sink | None]] = [_json_lines, _tensorboard, _weights_and_biases]


def opened(context: SinkContext, warn: Callable[[str], None]) -> Iterator[Sink]:
    """Opens the sinks that are wanted; warns of those that cannot be opened."""
    for open_sink in SINKS:
        try:
            sink = open_sink(context)
        except Exception as error:
            name = getattr(open_sink, "__name__", repr(open_sink))
            warn(f"{name} could not open its sink; the run goes on without it: {_in_a_line(error)}")
        else:
            if sink:
                yield sink
