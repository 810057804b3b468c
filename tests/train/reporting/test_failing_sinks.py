"""Sinks that fail: a full disk ends no run, and what it did not take is written later."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from hackmatrix.train.reporting import sink_list
from hackmatrix.train.reporting.reporter import Reporter
from hackmatrix.train.reporting.sink_list import Sinks
from hackmatrix.train.reporting.sinks import JsonLines, Metrics, Sink, TensorBoard
from hackmatrix.train.runs.lease import TakenOver
from tests.train.reporting.event_files import events
from tests.train.reporting.told_metrics import METRICS, Memory, lines, scalars

# Of a file that tensorboardX could not flush.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is tried again at once."""
    monkeypatch.setattr(sink_list, "_TRIED_EVERY", 0.0)


@contextmanager
def disk_full_after(size: int) -> Iterator[None]:
    """No file of this process can grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_once_and_what_it_lacks_is_written_later(tmp_path: Path) -> None:
    said: list[str] = []
    memory = Memory()
    files: list[Sink] = [
        JsonLines(tmp_path / "metrics.jsonl"),
        TensorBoard(tmp_path / "tensorboard"),
    ]
    with Sinks(*files, memory, say=said.append) as sinks:
        sinks.write(0, METRICS)
        with disk_full_after(0):
            for step in range(1, 20):
                sinks.write(step, METRICS)
        assert [line.split()[0] for line in said] == ["JsonLines", "TensorBoard"]
        for line in said:
            assert "File too large" in line
            assert len(line.splitlines()) == 1
        with (tmp_path / "metrics.jsonl").open("a") as cut_off:
            cut_off.write('{"step": 1, "ti')
        sinks.write(20, METRICS)  # there is room again
    assert said[2:] == ["JsonLines works again", "TensorBoard works again"]
    assert len(memory.written) == 21
    assert memory.is_closed
    steps = [line["step"] for line in lines(tmp_path / "metrics.jsonl")]
    assert steps == [*range(21)]
    assert {each.step for each in scalars(tmp_path / "tensorboard")} == {*range(21)}
    assert len([*(tmp_path / "tensorboard").iterdir()]) == 2


def test_a_place_that_cannot_be_written_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said: list[str] = []
    memory = Memory()
    places = tmp_path / "file/metrics.jsonl", tmp_path / "file/tensorboard"
    with Sinks(JsonLines(places[0]), TensorBoard(places[1]), memory, say=said.append) as sinks:
        sinks.write(1, METRICS)
    for line, place in zip(said[:2], places, strict=True):
        assert str(place) in line
    lacking = "1 of its last lines could not be written"
    assert said[2:] == [f"JsonLines: {lacking}", f"TensorBoard: {lacking}"]
    assert memory.written == [(1, METRICS)]


def test_a_sink_that_fails_is_closed_also_where_nobody_listens() -> None:
    class Full(Memory):
        def write(self, step: int, metrics: Metrics) -> None:
            raise OSError("the disk is full")

    def nobody(line: str) -> None:
        raise BrokenPipeError

    full, memory = Full(), Memory()
    with Sinks(full, memory, say=nobody) as sinks:
        sinks.write(1, METRICS)
        assert full.is_closed
    assert memory.written == [(1, METRICS)]


def test_sinks_are_closed_when_the_run_fails() -> None:
    memory = Memory()
    with pytest.raises(RuntimeError), Sinks(memory):
        raise RuntimeError
    assert memory.is_closed


def test_what_is_written_late_has_the_time_at_which_it_was_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Sinks(JsonLines(tmp_path / "metrics"), TensorBoard(tmp_path), say=Mock()) as sinks:
        for now, room in ((5.0, 0), (7.0, 0), (9.0, resource.RLIM_INFINITY)):
            clock = Mock(time=Mock(return_value=now), monotonic=time.monotonic)
            monkeypatch.setattr(sink_list, "time", clock)
            with disk_full_after(room):
                sinks.write(int(now), METRICS)
    assert [line["time"] for line in lines(tmp_path / "metrics")] == [5, 7, 9]
    told = {event.step: event.wall_time for event in events(tmp_path) if event.step}
    assert told == {5: 5, 7: 7, 9: 9}


def test_a_session_whose_first_line_fails_still_forgets_what_it_does_again(tmp_path: Path) -> None:
    with Sinks(TensorBoard(tmp_path)) as sinks:
        for step in range(1, 5):
            sinks.write(step, {"train/entropy": 1.0})
    with Sinks(TensorBoard(tmp_path, purge_step=3, settings={"lr": 1.0}), say=Mock()) as sinks:
        with disk_full_after(0):
            sinks.write(3, {"train/entropy": 2.0})
        sinks.write(4, {"train/entropy": 2.0})
    assert [(each.step, each.value) for each in scalars(tmp_path) if each.tag[0] != "_"] == [
        (1, 1), (2, 1), (3, 2), (4, 2)
    ]  # fmt: skip
    assert "_hparams_/session_start_info" in {each.tag for each in scalars(tmp_path)}


@pytest.mark.parametrize("kind", [None, KeyboardInterrupt])
def test_what_is_lacking_is_not_written_to_a_run_that_is_not_ours_any_more(
    tmp_path: Path, kind: type[BaseException] | None
) -> None:
    sinks, confirm = Sinks(JsonLines(tmp_path / "metrics"), say=Mock()), Mock(side_effect=TakenOver)
    other: Any = MagicMock()
    reporter = Reporter(other, other, other, sinks, other, other, other, confirm)
    with disk_full_after(0):
        sinks.write(1, METRICS)
    with nullcontext() if kind else pytest.raises(TakenOver):
        reporter.__exit__(kind)
    assert (tmp_path / "metrics").read_text() == ""
