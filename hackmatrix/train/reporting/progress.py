"""The metrics of each chunk, read one chunk late, while the next one runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import jax

from hackmatrix.envs.metrics import Metric, Section
from hackmatrix.errors import UserError
from hackmatrix.rl.train_state import NEVER, Report
from hackmatrix.train.program import Program
from hackmatrix.train.runs.schedule import Schedule

STEPS_PER_SECOND, HOURS_LEFT = "perf/steps_per_second", "perf/hours_left"
_SECONDS = "perf/seconds_"
SECTION = Section(
    "How fast it runs",
    (
        Metric(STEPS_PER_SECOND, "environment steps per second", digits=0),
        Metric("perf/steps_per_second_per_device", "environment steps per second per device"),
        Metric("perf/updates_per_second", "updates per second"),
        Metric(HOURS_LEFT, "hours left"),
        *(
            Metric(f"{_SECONDS}{phase}", phase, chart="seconds spent since its last start")
            for phase in ("compile", "run", "evaluate", "save", "write")
        ),
    ),
)


class Broken(UserError):
    """A loss or a gradient was not finite; the run cannot go on."""


class _Chunk(NamedTuple):
    """A chunk that was started: the update that it ends with, its number of updates, its report.
    On a GPU most of its time is spent starting it, elsewhere waiting for its report.
    """

    update: int
    updates: int
    report: Report
    seconds: float  # spent on it so far
    is_over: bool = False


class Progress:
    """Reads the report of a chunk when the next one is added, or on `flush`. `tell` is called with
    the environment step at which the chunk ended, and its metrics.
    """

    def __init__(
        self,
        program: Program,
        schedule: Schedule,
        tell: Callable[[int, Mapping[str, float]], None],
    ) -> None:
        self._schedule, self._config, self._clock = schedule, schedule.config, schedule.clock
        self._devices, self._vital, self._tell = program.mesh.size, program.algorithm.vital, tell
        self._waiting: _Chunk | None = None
        self._evaluation: Mapping[str, float] = {}
        self._lap_began = self._clock.seconds()

    def starting(self) -> AbstractContextManager[None]:
        """Times the dispatch of a chunk; on a GPU that blocks for nearly as long as the chunk
        runs.
        """
        return self._clock.phase("run")

    def add(self, update: int, updates: int, report: Report) -> None:
        """Adds the chunk of `updates` updates that was just started; reports the previous one."""
        late, self._waiting = self._waiting, _Chunk(update, updates, report, self._lap())
        self._read(late)
        taken = self._waiting.seconds + self._lap()  # it ran while that was reported
        self._waiting = self._waiting._replace(seconds=taken)

    @contextmanager
    def untimed(self) -> Iterator[None]:
        """Waits for the newest chunk; time spent inside counts towards no chunk's throughput."""
        if self._waiting and not self._waiting.is_over:
            with self._clock.phase("run"):
                jax.block_until_ready(self._waiting.report)
            taken = self._waiting.seconds + self._lap()
            self._waiting = self._waiting._replace(seconds=taken, is_over=True)
        yield
        self._lap()

    def add_evaluation(self, metrics: Mapping[str, float]) -> None:
        """Adds metrics of the agent after the newest chunk, to be reported with it."""
        self._evaluation = metrics

    def flush(self) -> None:
        """Waits for the newest chunk and reports it."""
        late, self._waiting = self._waiting, None
        self._read(late)

    def _read(self, chunk: _Chunk | None) -> None:
        if chunk is None:
            return
        update, updates, report = chunk.update, chunk.updates, chunk.report
        evaluation, self._evaluation = self._evaluation, {}
        with self._clock.phase("run"):
            host: Report = jax.device_get(report)
        metrics = {name: float(value) for name, value in host.metrics.items()}
        if host.broken_at != NEVER:
            raise self._broken(int(host.broken_at), metrics)
        lap = self._lap()
        seconds = chunk.seconds if chunk.is_over else chunk.seconds + lap
        with self._clock.phase("write"):
            speed = self._speed(update, updates, seconds)
            self._tell(self._schedule.steps_after(update), {**metrics, **evaluation, **speed})

    def _lap(self) -> float:
        """Returns the seconds since the last call."""
        began, self._lap_began = self._lap_began, self._clock.seconds()
        return self._lap_began - began

    def _broken(self, update: int, metrics: Mapping[str, float]) -> Broken:
        names = [name for name in self._vital if not math.isfinite(metrics[name])]
        names = names or ["the state of the learner"]
        are = "is" if len(names) == 1 else "are"
        broken = f"update {update + 1} is broken: {' and '.join(names)} {are} not finite; "
        if update == 0:  # training can hardly be the cause yet
            return Broken(
                f"{broken}in the first update the cause is a reward, an observation or the network "
                "itself, or a --config.lr that is far too high"
            )
        return Broken(
            f"{broken}resume with a lower --config.lr, or with --config.skip_nonfinite=True to "
            "skip such updates, unless the cause is a reward too large for float32"
        )

    def _speed(self, update: int, updates: int, seconds: float) -> dict[str, float]:
        steps = updates * self._config.batch_size / seconds
        left = (self._schedule.last_update - update) * seconds / updates
        if self._config.time_limit_minutes:
            left = min(left, 60 * self._config.time_limit_minutes - self._clock.trained())
        return {
            STEPS_PER_SECOND: steps,
            "perf/steps_per_second_per_device": steps / self._devices,
            "perf/updates_per_second": updates / seconds,
            HOURS_LEFT: max(left, 0) / 3600,
            **{f"{_SECONDS}{name}": spent for name, spent in self._clock.spent().items()},
        }
