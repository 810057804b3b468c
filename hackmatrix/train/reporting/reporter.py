"""Reports on a run in progress: metrics to sinks, warnings, a trace and replays."""

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
    """A context in which the sinks are open; it is made when training begins."""

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
        """Begins or ends a trace, if due after this many updates, which led to this state."""
        if self._tracer.is_due(update):
            with self.untimed():
                self._tracer.reached(update, state)

    def starting(self) -> AbstractContextManager[None]:
        """Times the dispatch of a chunk; on a GPU that blocks for nearly as long as the chunk
        runs.
        """
        return self._progress.starting()

    def after_chunk(self, update: int, updates: int, report: Report) -> None:
        """Adds the chunk of `updates` updates that was just started; reports the previous one."""
        self._progress.add(update, updates, report)

    def untimed(self) -> AbstractContextManager[None]:
        """Waits for the newest chunk; time spent inside counts towards no chunk's throughput."""
        return self._progress.untimed()

    def evaluated(self, evaluation: EvaluationResult) -> None:
        """Adds an evaluation of the agent after the newest chunk, to be reported with it."""
        self._progress.add_evaluation(evaluation.metrics)

    def replay_checkpoint(self, update: int, learner: Any) -> None:
        """Records a replay for the checkpoint that was saved after this many updates."""
        self._replays.at_checkpoint(self._schedule.steps_after(update), learner)

    def flush(self) -> None:
        """Waits for the newest chunk and reports it."""
        self._progress.flush()

    def finish(self, state: TrainState) -> None:
        """Ends the trace and reports the newest chunk; `state` is the last one."""
        with self.untimed():
            self._tracer.finish(state)
        self.flush()

    def _tell(self, step: int, metrics: Mapping[str, float]) -> None:
        self._sinks.write(step, metrics)
        for warning in self._health.observe(step, metrics):
            self._warn(warning)
