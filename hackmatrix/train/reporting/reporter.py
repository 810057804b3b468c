"""Reports of a run in progress: metrics to sinks, warnings, a trace and replays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Self

from hackmatrix.rl.train_state import Report, TrainState
from hackmatrix.train.program import Program
from hackmatrix.train.reporting.evaluator import EvaluationResult
from hackmatrix.train.reporting.health import Health
from hackmatrix.train.reporting.progress import Progress
from hackmatrix.train.reporting.replays import Replays
from hackmatrix.train.reporting.sink_list import Sinks
from hackmatrix.train.reporting.tracing import Tracer
from hackmatrix.train.runs.schedule import Schedule


class Reporter:
    """Made when training begins. Within it the sinks are open."""

    def __init__(
        self,
        program: Program,
        schedule: Schedule,
        sinks: Sinks,
        tracer: Tracer,
        replays: Replays,
        warn: Callable[[str], None],
    ) -> None:
        self._sinks, self._tracer, self._replays, self._warn = sinks, tracer, replays, warn
        self._schedule = schedule
        self._health = Health(program.health)
        self._progress = Progress(program, schedule, self._tell)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._sinks.catch_up()
        finally:
            self._sinks.close()

    def before_chunk(self, update: int, state: TrainState) -> None:
        """So many updates are done, and led to this state."""
        if self._tracer.is_due(update):
            with self.untimed():
                self._tracer.reached(update, state)

    def starting(self) -> AbstractContextManager[None]:
        """Times the dispatch of a chunk; on a GPU that blocks for nearly as long as the chunk
        runs.
        """
        return self._progress.starting()

    def after_chunk(self, update: int, updates: int, report: Report) -> None:
        """A chunk of so many updates, up to this one, has been started: tells of the one before."""
        self._progress.add(update, updates, report)

    def untimed(self) -> AbstractContextManager[None]:
        """Waits for the newest chunk; time spent inside counts towards no chunk's throughput."""
        return self._progress.untimed()

    def evaluated(self, evaluation: EvaluationResult) -> None:
        """The agent was evaluated after the newest chunk."""
        self._progress.add_evaluation(evaluation.metrics)

    def saved(self, update: int, learner: Any) -> None:
        """A checkpoint was made after so many updates."""
        self._replays.at_checkpoint(self._schedule.steps_after(update), learner)

    def flush(self) -> None:
        """Waits for the newest chunk and tells of it too."""
        self._progress.flush()

    def finish(self, state: TrainState) -> None:
        """No update follows the one that led to this state."""
        with self.untimed():
            self._tracer.finish(state)
        self.flush()

    def _tell(self, step: int, metrics: Mapping[str, float]) -> None:
        self._sinks.write(step, metrics)
        for warning in self._health.observe(step, metrics):
            self._warn(warning)
