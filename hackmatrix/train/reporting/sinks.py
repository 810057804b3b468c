"""Sinks of metrics: TensorBoard, JSON lines, and any other object with the methods of Sink.

Metrics that are not finite are left out: NaN means no data, for example that no episode ended.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, TextIO, runtime_checkable

import numpy as np

from hackmatrix.train.runs import atomic_files
from hackmatrix.whole_files import parsed

Metrics = Mapping[str, float]
_PICTURES = 6  # of each game
_BEGINS = re.compile(rb'\{"step": (\d{1,18}), "time": \d')  # a line of JsonLines
_EVENTS = re.compile(r"events_(\d+)\.")  # a file of TensorBoard


class Sink(Protocol):
    """Writes the metrics of each chunk. It opens its files at the first write."""

    def write(self, step: int, metrics: Metrics) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class Reopens(Protocol):
    """A sink that can open its files again, after it has failed and was closed."""

    def write_late(self, step: int, metrics: Metrics, at: float) -> None:
        """Writes metrics from the time `at`, in seconds since 1970."""


class Game(Protocol):
    """A recorded game, to look at."""

    @property
    def total(self) -> float: ...

    def page(self) -> str: ...

    def pictures(self, most: int) -> list[np.ndarray]:
        """Returns pictures u8[H, W, 3], at most this many."""

    def film(self, most: int) -> bytes:
        """Returns a GIF of at most this many turns."""


@runtime_checkable
class ShowsGames(Protocol):
    """A sink that also shows recorded games of a run."""

    def show_game(self, step: int, game: Game) -> None: ...


class JsonLines:
    """A file of metrics, one JSON object a line: step, time (seconds since 1970) and the metrics.

    With `resumed_at`, lines of later steps are dropped first: those steps are trained again.
    """

    def __init__(self, path: Path, resumed_at: int | None = None) -> None:
        self._path = path
        self._resumed_at = resumed_at
        self._end: int | None = None  # the offset after the last complete line
        self._file: TextIO | None = None

    def write(self, step: int, metrics: Metrics) -> None:
        self.write_late(step, metrics, time.time())

    def write_late(self, step: int, metrics: Metrics, at: float) -> None:
        self._file = self._file or self._open()
        line = {"step": step, "time": round(at, 3), **finite(metrics)}
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()
        self._end = self._file.tell()

    def close(self) -> None:
        if file := self._file:
            self._file = None
            file.close()

    def _open(self) -> TextIO:
        if self._end is None:
            _keep_sound_lines(self._path, self._resumed_at)
        file = self._path.open("a")
        if self._end is not None:  # after it there may be part of a line
            file.truncate(min(self._end, file.tell()))
        return file


class TensorBoard:
    """Event files for TensorBoard. With `purge_step`, TensorBoard drops what older files of the
    directory have of that step and later ones. `settings` are the hyperparameters of the run, which
    are written with the metrics. `elsewhere` names older files that are not in the directory, as in
    a run in a bucket.

    tensorboardX's SummaryWriter writes in a thread behind a queue: when the disk is full, the
    thread dies, the queue fills, and the run hangs. Its EventsWriter writes synchronously.
    """

    def __init__(
        self,
        directory: Path,
        purge_step: int | None = None,
        settings: Mapping[str, Any] | None = None,
        elsewhere: Iterable[str] = (),
    ) -> None:
        self._directory, self._purge_step, self._settings = directory, purge_step, settings
        self._elsewhere = elsewhere
        self._writer: Any = None
        self._is_empty = True  # the open file has no metrics

    def write(self, step: int, metrics: Metrics) -> None:
        self.write_late(step, metrics, time.time())

    def write_late(self, step: int, metrics: Metrics, at: float) -> None:
        from tensorboardX.proto.summary_pb2 import Summary

        values = finite(metrics).items()
        self._add(step, [Summary.Value(tag=tag, simple_value=each) for tag, each in values], at)

    def show_game(self, step: int, game: Game) -> None:
        from tensorboardX import summary

        pictures = game.pictures(_PICTURES)
        self._add(
            step,
            [
                summary.image(f"game/{number}", picture, dataformats="HWC").value[0]
                for number, picture in enumerate(pictures, start=1)
            ],
            time.time(),
        )

    def close(self) -> None:
        if not self._writer:
            return
        writer, self._writer = self._writer, None
        try:
            writer.close()
        finally:
            if self._is_empty:
                self._file.unlink(missing_ok=True)

    def _add(self, step: int, values: list[Any], at: float) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        if self._writer is None:
            self._writer = self._open()
        told = Summary(value=values)
        self._writer.write_event(Event(step=step, wall_time=at, summary=told))
        self._writer.flush()
        self._is_empty = False
        self._purge_step = self._settings = None  # for the first file only

    def _open(self) -> Any:
        from tensorboardX import summary
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        self._directory.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files in the order of their names. By default tensorboardX names them by
        # the time, a wrong order if clocks differ; names with "_" and a number sort after those.
        older = {*self._elsewhere, *(each.name for each in self._directory.iterdir())}
        numbers = [int(found[1]) for each in older if (found := _EVENTS.match(each))]
        name = f"events_{max(numbers, default=-1) + 1:06}"  # although older ones may be deleted
        suffix = f".{time.time_ns()}"
        writer = EventsWriter(str(self._directory / name), suffix)
        (self._file,) = self._directory.glob(f"{name}*{suffix}")
        self._is_empty = True
        if self._purge_step is not None:
            start = SessionLog(status=SessionLog.START)
            writer.write_event(
                Event(step=self._purge_step, wall_time=time.time(), session_log=start)
            )
        if self._settings is not None:
            # Only the start of the session: TensorBoard collects the rest from all runs.
            told = {name: _fitting(value) for name, value in self._settings.items()}
            _, session, _ = summary.hparams(told, {})
            writer.write_event(Event(wall_time=time.time(), summary=session))
        return writer


def load_ahead() -> None:
    """Imports tensorboardX in a thread: it imports PyTorch, too, if that is installed, which takes
    seconds.
    """

    def load() -> None:
        with suppress(Exception):  # the first write fails in the same way, and is reported
            importlib.import_module("tensorboardX")

    threading.Thread(target=load, name="tensorboardX").start()


def finite(metrics: Metrics) -> dict[str, float]:
    """Returns the metrics that are finite."""
    return {tag: float(value) for tag, value in metrics.items() if math.isfinite(value)}


def _fitting(setting: Any) -> Any:
    """Turns integers that do not fit in 64 bits, such as one for "never", into text."""
    is_long = type(setting) is int and abs(setting) >= 2**63
    return str(setting) if is_long else setting


def _keep_sound_lines(path: Path, last_step: int | None) -> None:
    """Drops lines after a step, and a line that a crash or a full disk cut off. It streams the
    file, as a month of lines may be gigabytes. The sound lines go to a new file, so the mirror of a
    run in a bucket copies it whole.
    """
    if not path.exists():
        return
    is_sound = partial(_is_sound, last_step=last_step)
    with path.open("rb") as lines:
        first = next((number for number, line in enumerate(lines) if not is_sound(line)), None)
        if first is not None:
            lines.seek(0)
            sound = chain(islice(lines, first), filter(is_sound, lines))
            atomic_files.write_lines(path, sound)


def read_lines(
    path: Path, first_step: int, last_step: int | None
) -> Iterator[tuple[int, Metrics, float]]:
    """Yields what JsonLines wrote to a file for these steps, as (step, metrics, time)."""
    wanted = partial(_is_sound, first_step=first_step, last_step=last_step)
    with suppress(FileNotFoundError), path.open("rb") as lines:
        for line in filter(wanted, lines):
            try:
                told = parsed(line, dict)
                step, at = int(told.pop("step")), told.pop("time")
            except (ValueError, KeyError):  # damaged in its middle
                continue
            yield step, told, at


def step_of_whole(line: bytes) -> int | None:
    """Returns the step of a line that looks as JsonLines writes it, without parsing what is in its
    middle, which would take minutes for a month of lines; else None.
    """
    begins = _BEGINS.match(line)
    is_whole = line.endswith(b"}\n") and line.count(b"{") == 1 and b"\0" not in line
    return int(begins[1]) if begins and is_whole else None


def _is_sound(line: bytes, last_step: int | None, first_step: int = 0) -> bool:
    """Whether a line is complete and of one of these steps."""
    step = step_of_whole(line)
    if step is None:
        try:
            step = int(parsed(line, dict)["step"])
        except (ValueError, TypeError, KeyError, OverflowError):
            return False
    is_wanted = step >= first_step and (last_step is None or step <= last_step)
    return is_wanted and line.endswith(b"\n")
