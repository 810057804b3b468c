"""What is measured and reported of chunks of updates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import MagicMock, Mock, patch

import jax
import jax.numpy as jnp
import pytest

from hackmatrix.rl.train_state import NEVER, Report
from hackmatrix.train.loop import train
from hackmatrix.train.reporting.progress import HOURS_LEFT, STEPS_PER_SECOND, Broken, Progress
from hackmatrix.train.reporting.reporter import Reporter
from hackmatrix.train.reporting.tracing import Tracer, parse_span
from hackmatrix.train.runs.clock import Clock
from hackmatrix.train.runs.schedule import Schedule
from tests.train.settings import resolved

LOSS = "train/loss"


@pytest.mark.parametrize(
    ("update", "advice"),
    [
        (0, "in the first update the cause is a reward, an observation or the network itself"),
        (7, "resume with a lower --config.lr, or with --config.skip_nonfinite=True"),
    ],
)
def test_the_advice_for_a_broken_update_depends_on_whether_it_was_the_first(
    update: int, advice: str
) -> None:
    program: Any = Mock()
    program.algorithm.vital = (LOSS,)
    progress = Progress(program, Schedule(resolved()), Mock())
    progress.add(10, 10, Report.of({LOSS: jnp.float32(jnp.nan)}, jnp.int32(update)))
    with pytest.raises(Broken) as broken:
        progress.flush()
    assert str(broken.value).startswith(f"update {update + 1} is broken: {LOSS} is not finite; ")
    assert advice in str(broken.value)


class Device:
    """A device that takes a second for each update, and runs one chunk after the other."""

    def __init__(self) -> None:
        self.now = self._ended = 0.0

    def start(self, updates: int) -> Report:
        self._ended = max(self.now, self._ended) + updates
        return Report.of({"ended": jnp.float32(self._ended)}, jnp.int32(NEVER))

    def wait_until(self, time: float) -> None:
        self.now = max(self.now, time)

    def idle(self) -> None:
        """Waits until all chunks that were started have ended."""
        self.wait_until(self._ended)

    def read(self, report: Report) -> Report:
        self.wait_until(float(report.metrics["ended"]))
        return report


@pytest.fixture
def device() -> Iterator[Device]:
    it = Device()
    with (
        patch.object(Clock, "seconds", lambda clock: it.now),
        patch.object(jax, "device_get", it.read),
        patch.object(jax, "block_until_ready", it.read),
    ):
        yield it


@pytest.mark.parametrize("waits_at_the_start", [True, False], ids=["GPU", "CPU or TPU"])
@pytest.mark.parametrize("meanwhile", ["nothing", "the agent is measured", "and saved"])
def test_the_speed_of_a_chunk_counts_only_its_own_time(
    waits_at_the_start: bool, meanwhile: str, device: Device
) -> None:
    """Also if starting it takes as long as it runs, or if other work is done before the next one.
    The last chunk is a short one. The time for which chunks run is summed up, too.
    """
    speeds: list[float] = []
    program: Any = Mock()
    program.algorithm.vital, program.mesh.size = (), 1
    schedule = Schedule(resolved())
    progress = Progress(
        program, schedule, lambda _, metrics: speeds.append(metrics[STEPS_PER_SECOND])
    )
    update = 0
    for updates in (20, 20, 20, 5):
        with progress.starting():
            report = device.start(updates)
            if waits_at_the_start:
                device.idle()
        update += updates
        progress.add(update, updates, report)
        if update == 40 and meanwhile != "nothing":
            with progress.untimed():
                device.wait_until(device.now + 30)
            progress.add_evaluation({})
        if update == 40 and meanwhile == "and saved":
            device.wait_until(device.now + 7)
            with progress.untimed():
                progress.flush()
                device.wait_until(device.now + 20)
    progress.flush()
    assert speeds == pytest.approx([schedule.config.batch_size] * 4)
    assert schedule.clock.spent()["run"] == pytest.approx(65)


@pytest.mark.parametrize(
    ("limit", "trained", "seconds_left"), [(None, 0.0, 160), (1.0, 20.0, 40), (1.0, 70.0, 0)]
)
def test_the_speed_of_a_run_and_the_time_left_are_reported(
    limit: float | None, trained: float, seconds_left: float, device: Device
) -> None:
    reported: dict[str, float] = {}
    program: Any = Mock()
    program.algorithm.vital, program.mesh.size = (), 4
    of_100_updates = resolved(
        num_envs=8, num_steps=8, total_timesteps=100 * 64, time_limit_minutes=limit
    )
    progress = Progress(
        program, Schedule(of_100_updates), lambda _, metrics: reported.update(metrics)
    )
    progress.add(20, 20, device.start(20))
    device.wait_until(40)
    with patch.object(Clock, "trained", lambda _: trained):
        progress.flush()
    assert reported[STEPS_PER_SECOND] == 32
    assert reported["perf/steps_per_second_per_device"] == 8
    assert reported["perf/updates_per_second"] == 0.5
    assert reported[HOURS_LEFT] == pytest.approx(seconds_left / 3600)


def test_the_time_to_report_a_chunk_counts_toward_the_chunk_that_runs_meanwhile(
    device: Device,
) -> None:
    speeds: list[float] = []
    program: Any = Mock()
    program.algorithm.vital, program.mesh.size = (), 1
    schedule = Schedule(resolved())

    def report(_: int, metrics: Mapping[str, float]) -> None:
        speeds.append(metrics[STEPS_PER_SECOND] / schedule.config.batch_size)
        device.wait_until(device.now + 3)

    progress = Progress(program, schedule, report)
    for update in range(1, 6):
        progress.add(update, 1, device.start(1))
    progress.flush()
    assert speeds == pytest.approx([1, 1 / 3, 1 / 3, 1 / 3, 1 / 3])
    assert sum(1 / each for each in speeds) == pytest.approx(device.now - 3)


def test_the_start_of_a_chunk_is_marked_and_all_work_between_chunks_is_untimed() -> None:
    done: list[str] = []

    @contextmanager
    def inside(what: str) -> Iterator[None]:
        done.append(what)
        yield
        done.append("over")

    def run(*_: object) -> tuple[Any, Any]:
        done.append("run")
        return state, Mock()

    guard, evaluator, checkpointer, reporter, program, state = (Mock() for _ in range(6))
    guard.next_chunk.side_effect, state.learner.update = [1, 0], 1
    program.run = run
    reporter.untimed, reporter.starting = partial(inside, "untimed"), partial(inside, "starting")
    guard.compare_now.side_effect = lambda *_: done.append("compared")
    guard.arm.side_effect = done.append
    guard.arm_for_chunk.side_effect = lambda: done.append("a chunk is expected")
    evaluator.measure.side_effect = lambda *_: done.append("measured")
    checkpointer.save.side_effect = lambda *_: done.append("saved")
    checkpointer.schedule, checkpointer.is_unsaved.return_value = Schedule(resolved()), False
    train(state, program, guard, reporter, evaluator, checkpointer)
    assert done == [
        "starting", "run", "over", "untimed", "compared", "over",
        "untimed", "No evaluation game was played", "measured", "a chunk is expected", "over",
        "untimed", "compared", "saved", "over", "The last state was not saved",
    ]  # fmt: skip


def test_a_trace_that_was_written_is_not_reported_as_missing() -> None:
    messages: list[str] = []
    tracer = Tracer(parse_span("1:20"), MagicMock(), messages.append)
    with patch.multiple(jax.profiler, start_trace=Mock(), stop_trace=Mock()):
        for update in (0, 20):
            tracer.reached(update, Mock())
    tracer.finish(Mock())
    (line,) = messages
    assert line.startswith("The trace is in ")


def test_starting_and_stopping_a_trace_counts_toward_no_chunk(device: Device) -> None:
    sinks, schedule, done = Mock(), Schedule(resolved()), []
    program: Any = Mock(health=())
    program.algorithm.vital, program.mesh.size = (), 1
    tracer = Tracer(parse_span("21:20"), Mock(), Mock())

    def reach(update: int, state: Any) -> None:
        device.wait_until(device.now + 30)
        done.append((update, device.now))

    reporter = Reporter(program, schedule, sinks, tracer, Mock(), Mock())
    with patch.object(tracer, "reached", reach):
        for update in (0, 20, 40, 60):
            reporter.before_chunk(update, Mock())
            reporter.after_chunk(update + 20, 20, device.start(20))
    reporter.flush()
    assert done == [(20, 50), (40, 100)]
    speeds = [call.args[1][STEPS_PER_SECOND] for call in sinks.write.call_args_list]
    assert speeds == pytest.approx([schedule.config.batch_size] * 4)
