"""Sinks that fail: a full disk ends no run, and what could not be written is written later. The
package wandb is a stand-in here.
"""

from __future__ import annotations

import logging
import resource
import sys
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from hackmatrix.train.reporting import sink_list, weights_and_biases
from hackmatrix.train.reporting.reporter import Reporter
from hackmatrix.train.reporting.sink_list import SinkContext, Sinks
from hackmatrix.train.reporting.sinks import JsonLines, Metrics, Sink, TensorBoard
from hackmatrix.train.reporting.weights_and_biases import WeightsAndBiases
from hackmatrix.train.runs.directory import Run, create
from hackmatrix.train.runs.lease import TakenOver
from tests.train.reporting.event_files import events
from tests.train.reporting.pictured_game import PicturedGame
from tests.train.reporting.told_metrics import METRICS, Memory, lines, scalars
from tests.train.runs.full_disk import no_file_larger_than
from tests.train.settings import resolved

# The warning is about a file that tensorboardX could not flush.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed sinks are retried at once."""
    monkeypatch.setattr(sink_list, "_TRIED_EVERY", 0.0)


def test_a_full_disk_is_reported_once_and_missing_metrics_are_written_later(tmp_path: Path) -> None:
    messages: list[str] = []
    memory = Memory()
    files: list[Sink] = [
        JsonLines(tmp_path / "metrics.jsonl"),
        TensorBoard(tmp_path / "tensorboard"),
    ]
    with closing(Sinks(*files, memory, say=messages.append)) as sinks:
        sinks.write(0, METRICS)
        with no_file_larger_than(0):
            for step in range(1, 20):
                sinks.write(step, METRICS)
        assert [line.split()[0] for line in messages] == ["JsonLines", "TensorBoard"]
        for line in messages:
            assert "File too large" in line
            assert len(line.splitlines()) == 1
        with (tmp_path / "metrics.jsonl").open("a") as cut_off:
            cut_off.write('{"step": 1, "ti')
        sinks.write(20, METRICS)  # there is room again
    assert messages[2:] == ["JsonLines works again", "TensorBoard works again"]
    assert len(memory.written) == 21
    assert memory.is_closed
    steps = [line["step"] for line in lines(tmp_path / "metrics.jsonl")]
    assert steps == [*range(21)]
    assert {each.step for each in scalars(tmp_path / "tensorboard")} == {*range(21)}
    assert len([*(tmp_path / "tensorboard").iterdir()]) == 2


def test_an_unwritable_path_is_reported_and_the_run_continues(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    messages: list[str] = []
    memory = Memory()
    places = tmp_path / "file/metrics.jsonl", tmp_path / "file/tensorboard"
    files = JsonLines(places[0]), TensorBoard(places[1])
    with closing(Sinks(*files, memory, say=messages.append)) as sinks:
        sinks.write(1, METRICS)
    for line, place in zip(messages[:2], places, strict=True):
        assert str(place) in line
    lacking = "1 line could not be written"
    assert messages[2:] == [f"JsonLines: {lacking}", f"TensorBoard: {lacking}"]
    assert memory.written == [(1, METRICS)]


class Broken(Memory):
    """A sink that raises an error of its library."""

    def __init__(self, *broken: str) -> None:
        super().__init__()
        self._broken = broken

    def write(self, step: int, metrics: Metrics) -> None:
        self._raise("write")
        super().write(step, metrics)

    def close(self) -> None:
        super().close()
        self._raise("close")

    def _raise(self, what: str) -> None:
        if what in self._broken:
            raise ValueError(f"cannot {what}\nand why")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (["write"], "Broken failed; the run goes on without it: ValueError: cannot write and why"),
        (["write", "close"], "Broken failed; the run goes on without it: ValueError: cannot write"),
        (["close"], "Broken failed: ValueError: cannot close and why"),
    ],
)
def test_a_sink_does_not_end_the_run_whatever_it_raises(broken: list[str], message: str) -> None:
    messages: list[str] = []
    first, memory = Broken(*broken), Memory()
    with closing(Sinks(first, memory, say=messages.append)) as sinks:
        sinks.write(1, METRICS)
        assert first.is_closed == ("write" in broken)
    (line,) = messages
    assert line.startswith(message)
    assert "\n" not in line
    assert memory.written == [(1, METRICS)]
    assert first.is_closed
    assert memory.is_closed


def test_a_sink_that_cannot_be_opened_is_reported_and_the_others_are_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of_a_server(context: SinkContext) -> Sink:
        raise ConnectionRefusedError("nobody answers")

    memory, messages = Memory(), list[str]()
    monkeypatch.setattr(sink_list, "SINKS", [of_a_server, lambda _: None, lambda _: memory])
    assert [*sink_list.opened(Mock(), messages.append)] == [memory]
    assert messages == [
        "of_a_server could not open its sink; the run goes on without it: "
        "ConnectionRefusedError: nobody answers"
    ]


class Slow(Memory):
    """A sink whose every retry takes so many seconds and times out."""

    def __init__(self, takes: float, now: list[float]) -> None:
        super().__init__()
        self.tries: list[float] = []
        self._takes, self._now = takes, now

    def write_late(self, step: int, metrics: Metrics, at: float) -> None:
        self.tries.append(self._now[0])
        self._now[0] += self._takes
        raise TimeoutError

    def show_game(self, step: int, game: object) -> None:
        raise AssertionError("It is shown no game before it works again.")


@pytest.mark.parametrize("takes", [0.0, 30.0])
def test_retries_of_a_sink_that_keeps_failing_take_little_of_the_time(
    takes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(sink_list, "_TRIED_EVERY", 60.0)
    monkeypatch.setattr(sink_list, "time", Mock(time=time.time, monotonic=lambda: now[0]))
    slow = Slow(takes, now)
    sinks = Sinks(slow, say=Mock())
    while now[0] < 7200:
        sinks.write(1, METRICS)
        sinks.show_game(1, Mock())
        now[0] += 5
    assert slow.tries[1] - slow.tries[0] == pytest.approx(60 * max(takes, 1), abs=takes + 5)
    assert sum(takes for _ in slow.tries) <= 7200 / 50


def test_metrics_written_late_have_the_time_of_their_first_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = JsonLines(tmp_path / "metrics"), TensorBoard(tmp_path)
    with closing(Sinks(*files, say=Mock())) as sinks:
        for now, room in ((5.0, 0), (7.0, 0), (9.0, resource.RLIM_INFINITY)):
            clock = Mock(time=Mock(return_value=now), monotonic=time.monotonic)
            monkeypatch.setattr(sink_list, "time", clock)
            with no_file_larger_than(room):
                sinks.write(int(now), METRICS)
    assert [line["time"] for line in lines(tmp_path / "metrics")] == [5, 7, 9]
    times = {event.step: event.wall_time for event in events(tmp_path) if event.step}
    assert times == {5: 5, 7: 7, 9: 9}


def test_a_session_whose_first_write_fails_still_purges_repeated_steps_once(
    tmp_path: Path,
) -> None:
    with closing(Sinks(TensorBoard(tmp_path))) as sinks:
        for step in range(1, 5):
            sinks.write(step, {"train/entropy": 1.0})
    with closing(
        Sinks(TensorBoard(tmp_path, purge_step=3, settings={"lr": 1.0}), say=Mock())
    ) as sinks:
        for late, at_once in ((3, 4), (5, 6)):
            with no_file_larger_than(0):
                sinks.write(late, {"train/entropy": 2.0})
            sinks.write(at_once, {"train/entropy": 2.0})
    assert [(each.step, each.value) for each in scalars(tmp_path) if each.tag[0] != "_"] == [
        (1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 2)
    ]  # fmt: skip
    assert "_hparams_/session_start_info" in {each.tag for each in scalars(tmp_path)}


@pytest.mark.parametrize("kind", [None, KeyboardInterrupt])
def test_missing_metrics_are_not_written_to_a_run_that_was_taken_over(
    tmp_path: Path, kind: type[BaseException] | None
) -> None:
    confirm = Mock(side_effect=[None, TakenOver, TakenOver])
    sinks = Sinks(JsonLines(tmp_path / "metrics"), say=Mock(), confirm=confirm)
    other: Any = MagicMock()
    reporter = Reporter(other, other, sinks, other, other, other)
    with no_file_larger_than(0):
        sinks.write(1, METRICS)
    with pytest.raises(TakenOver):
        sinks.write(2, METRICS)
    with nullcontext() if kind else pytest.raises(TakenOver):
        reporter.__exit__(kind)
    assert (tmp_path / "metrics").read_text() == ""


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """A stand-in for the package, with one page, which already has the steps before 3."""
    package = MagicMock()
    package.init.return_value = page = MagicMock(id="mine", url="there", starting_step=3)
    page.settings.mode, page.settings.sync_dir = "online", "here"
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.setattr(weights_and_biases, "_LOOKS_EVERY", 0)
    return package


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with metrics of four steps."""
    begun = create(tmp_path, resolved())
    with closing(JsonLines(begun.metrics)) as before:
        for step in range(1, 5):
            before.write_late(step, METRICS, step)
    return begun


@pytest.mark.parametrize(
    ("resumed_at", "written", "steps"), [(4, [5], [3, 4, 5]), (1, [2, 3], [3])]
)
def test_a_page_is_sent_the_metrics_it_lacks_and_none_twice(
    resumed_at: int, written: list[int], steps: list[int], wandb: MagicMock, run: Run
) -> None:
    (run.directory / "wandb_id").touch()  # as a crash may leave it
    with closing(Sinks(JsonLines(run.metrics, resumed_at), WeightsAndBiases(run))) as sinks:
        for step in written:
            sinks.write(step, METRICS)
    calls = wandb.init().log.call_args_list
    assert [call.kwargs["step"] for call in calls] == steps
    assert [call.args[0]["_timestamp"] for call in calls[:-1]] == steps[:-1]
    assert wandb.init.call_args_list[0].kwargs["id"] is None
    assert (run.directory / "wandb_id").read_text() == "mine\n"


@pytest.mark.parametrize("rewind", [True, False])
def test_a_page_is_rewound_only_where_its_run_is(rewind: bool, tmp_path: Path) -> None:
    run = create(tmp_path, resolved(wandb=True, rewind=rewind))
    sink = sink_list._weights_and_biases(SinkContext(run, 4, print))
    assert isinstance(sink, WeightsAndBiases)
    assert sink._rewind_to == (4 if rewind else None)


def test_a_page_that_is_opened_for_a_game_is_first_sent_the_metrics_it_lacks(
    wandb: MagicMock, run: Run
) -> None:
    WeightsAndBiases(run).show_game(2, PicturedGame())
    *curves, film = wandb.init().log.call_args_list
    assert [call.kwargs["step"] for call in curves] == [3, 4]
    assert film.args[0].keys() == {"game"}


def test_a_checkpoint_that_cannot_be_uploaded_loses_no_metrics(wandb: MagicMock, run: Run) -> None:
    page, messages = wandb.init(), list[str]()
    (run.directory / "checkpoints/3").mkdir(parents=True)
    page.log_artifact.side_effect = ValueError("no room\nleft")
    with closing(Sinks(WeightsAndBiases(run, say=messages.append), say=messages.append)) as sinks:
        for step in (3, 4):
            sinks.write(step, METRICS)
    assert messages[1:] == ["A checkpoint could not be uploaded; the run goes on: no room left"]
    assert [call.kwargs["step"] for call in page.log.call_args_list] == [3, 4]
    page.finish.assert_called_once()


def test_a_wandb_warning_while_a_page_is_open_is_reported_once(wandb: MagicMock, run: Run) -> None:
    messages: list[str] = []
    WeightsAndBiases(run, say=messages.append).write(3, METRICS)
    assert [call.args[1] is None for call in wandb.termsetup.call_args_list] == [True, False]
    for _ in range(2):
        wandb.termsetup.call_args.args[1].warning("wandb: WARNING Fatal error.\nUse `wandb sync`.")
    assert messages[1:] == ["wandb: WARNING Fatal error. Use `wandb sync`. (A copy is in here.)"]
    assert not logging.getLogger("opentelemetry.sdk").isEnabledFor(logging.ERROR)
