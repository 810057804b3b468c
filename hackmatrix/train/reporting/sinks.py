"""Sinks of metrics: TensorBoard, JSON lines, and any other object with the methods of Sink.

A metric that is NaN has no data (no episode ended, say), so it is left out.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, TextIO

from hackmatrix.train.runs import atomic_files

Metrics = Mapping[str, float]


class Sink(Protocol):
    """Takes the metrics of a chunk. It opens its files at the first of them."""

    def write(self, step: int, metrics: Metrics) -> None: ...

    def close(self) -> None: ...


class Sinks:
    """Several sinks as one, closed at the end. One that fails is reported once and left out: a full
    disk should not end a run.
    """

    def __init__(self, *sinks: Sink, say: Callable[[str], None] = print) -> None:
        self._sinks = list(sinks)
        self._say = say

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, step: int, metrics: Metrics) -> None:
        for sink in list(self._sinks):
            self._guard(sink, partial(sink.write, step, metrics))

    def close(self) -> None:
        for sink in list(self._sinks):
            self._guard(sink, sink.close)
        self._sinks.clear()

    def _guard(self, sink: Sink, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            self._sinks.remove(sink)
            with suppress(OSError):  # it keeps what it could not write, and tries that again
                sink.close()
            with suppress(OSError):  # nobody may be listening any more
                self._say(f"{type(sink).__name__} failed, the run goes on without it: {error}")


class JsonLines:
    """A file of metrics, one JSON object a line: step, time (seconds since 1970) and the metrics.

    With `rewind_to`, lines of later steps are dropped before the first line is written.
    """

    def __init__(self, path: Path, rewind_to: int | None = None) -> None:
        self._path = path
        self._rewind_to = rewind_to
        self._file: TextIO | None = None

    def write(self, step: int, metrics: Metrics) -> None:
        if self._file is None:
            _keep_sound_lines(self._path, self._rewind_to)
            self._file = self._path.open("a")
        line = {"step": step, "time": round(time.time(), 3), **known(metrics)}
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class TensorBoard:
    """Event files for TensorBoard. With `purge_step`, it forgets what older files of the directory
    hold of that step and later ones.

    tensorboardX's SummaryWriter writes in a thread behind a queue: when the disk is full, the
    thread dies, the queue fills, and the run hangs. Its EventsWriter writes here and now.
    """

    def __init__(self, directory: Path, purge_step: int | None = None) -> None:
        self._directory = directory
        self._purge_step = purge_step
        self._writer: Any = None

    def write(self, step: int, metrics: Metrics) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        if self._writer is None:
            self._writer = self._open()
        values = [
            Summary.Value(tag=tag, simple_value=value) for tag, value in known(metrics).items()
        ]
        self._writer.write_event(
            Event(step=step, wall_time=time.time(), summary=Summary(value=values))
        )
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _open(self) -> Any:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        self._directory.mkdir(parents=True, exist_ok=True)
        # Their own names have a second in them, so that a quick restart would overwrite a file.
        writer = EventsWriter(str(self._directory / "events"), f".{time.time_ns()}")
        if self._purge_step is not None:
            start = SessionLog(status=SessionLog.START)
            writer.write_event(
                Event(step=self._purge_step, wall_time=time.time(), session_log=start)
            )
        return writer


def known(metrics: Metrics) -> dict[str, float]:
    """The metrics that are numbers."""
    return {tag: float(value) for tag, value in metrics.items() if math.isfinite(value)}


def _keep_sound_lines(path: Path, last_step: int | None) -> None:
    """Drops lines after a step, and a line that a crash or a full disk cut off."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    kept = [line for line in lines if _is_sound(line, last_step)]
    if kept != lines:
        atomic_files.write(path, "".join(kept))


def _is_sound(line: str, last_step: int | None) -> bool:
    try:
        step = json.loads(line)["step"]
    except (ValueError, TypeError, KeyError):
        return False
    return line.endswith("\n") and (last_step is None or step <= last_step)
