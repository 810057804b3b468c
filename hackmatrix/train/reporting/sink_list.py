"""Where metrics go: several sinks as one, the list of those besides the console, and what each is
opened with.

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

_TRIED_EVERY = 60.0  # seconds, times those that a try takes: at most a sixtieth of the time
_MOST_WAITING = 5000  # lines of metrics for a sink that fails; those before are lost
_LONGEST_ERROR = 400  # characters


@dataclass(eq=False)
class _Open:
    """A sink, the lines that wait for it and, while it fails, when it is tried again."""

    sink: Sink
    waiting: deque[tuple[int, Metrics, float]] = field(
        default_factory=lambda: deque(maxlen=_MOST_WAITING)
    )
    retry_at: float | None = None

    @property
    def name(self) -> str:
        return type(self.sink).__name__


class Sinks:
    """Several sinks as one. A full disk should not end a run, nor a library of somebody else: one
    that fails is reported once. If it `Reopens` it gets the lines that it lacks later, and else it
    is left out. Games may come from another thread.
    """

    def __init__(
        self,
        *sinks: Sink,
        say: Callable[[str], None] = streams.say,
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        """`confirm` raises where the run is not ours to write metrics to any more."""
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
        """Tries once more to write what could not be written."""
        self._confirm()
        with self._lock:
            for each in list(self._open):
                self._write_all(each)

    def close(self) -> None:
        with self._lock:
            for each in self._open:
                if lacking := len(each.waiting):
                    self._say(f"{each.name}: {lacking:,} of its last lines could not be written")
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
        """Whether that has been done."""
        began = time.monotonic()
        try:
            action()
        except Exception as error:
            with suppress(Exception):  # it keeps what it could not write, and tries that again
                each.sink.close()
            self._note_failure(each, _in_a_line(error), time.monotonic() - began)
            return False
        return True

    def _note_failure(self, each: _Open, error: str, seconds: float) -> None:
        if not isinstance(each.sink, Reopens):
            self._open.remove(each)
            self._say(f"{each.name} failed, the run goes on without it: {error}")
            return
        if each.retry_at is None:
            again = "the run goes on, and it is tried again now and then"
            self._say(f"{each.name} failed; {again}: {error}")
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
    """What a sink may ask for when it is opened: the run, the environment step that it goes on from
    if it was resumed, and who prints a line.
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


def _in_the_bucket(run: Run) -> int:
    """The files for TensorBoard that earlier starts have left there, or 0 if it cannot be asked."""
    if run.bucket:
        with suppress(OSError):
            return sum("tfevents" in name for name in run.lasting(run.tensorboard).names())
    return 0


def _weights_and_biases(context: SinkContext) -> Sink | None:
    if not context.run.config.wandb:
        return None
    rewind_to = context.resumed_at if context.run.config.rewind else None
    return WeightsAndBiases(context.run, rewind_to, say=context.say)


# Each opens its sink, or gives None where it is not wanted. Only the first process calls them.
SINKS: list[Callable[[SinkContext], Sink | None]] = [_json_lines, _tensorboard, _weights_and_biases]


def opened(context: SinkContext, warn: Callable[[str], None]) -> Iterator[Sink]:
    """All that are wanted and can be opened."""
    for open_sink in SINKS:
        try:
            sink = open_sink(context)
        except Exception as error:
            name = getattr(open_sink, "__name__", repr(open_sink))
            warn(f"{name} opens no sink, the run goes on without it: {_in_a_line(error)}")
        else:
            if sink:
                yield sink
