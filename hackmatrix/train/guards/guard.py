"""The guard of a run: when it is to stop, and the comparison of its replicas."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from jax.sharding import Mesh

from hackmatrix.parallel.agreement import any_process
from hackmatrix.train.guards import replicas
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.guards.watchdog import LONG
from hackmatrix.train.runs.schedule import Schedule


class Guard:
    """All processes stop at the same update; at the updates in `ends` a chunk has to end."""

    def __init__(
        self,
        schedule: Schedule,
        mesh: Mesh,
        supervision: Supervision,
        ends: Collection[int] = (),
    ) -> None:
        self._schedule, self._config = schedule, schedule.config
        self._mesh, self._ends = mesh, ends
        self._signals, self._watchdog = supervision.signals, supervision.watchdog

    def arm(self, failure: str) -> None:
        """Arms the watchdog for one operation of unknown length; `failure` is said if it hangs."""
        self._watchdog.arm(failure, max(LONG, 60 * self._config.watchdog_minutes))

    def arm_for_chunk(self) -> None:
        """Arms the watchdog for a chunk: watchdog_minutes."""
        seconds = 60 * self._config.watchdog_minutes
        self._watchdog.arm("No chunk of updates was finished", seconds)

    def next_chunk(self, update: int, seconds: float) -> int:
        """How many updates to do next, after so many that took so long; 0 when all are done, when
        the time is up, or when the run was asked to stop.
        """
        self.arm_for_chunk()
        if any_process(self._signals.asked_to_stop) or self._schedule.is_time_up(seconds):
            return 0
        return self._schedule.next_chunk(update, self._ends)

    def goes_on(self) -> bool:
        """Tells the watchdog of progress; False once the run was asked to stop."""
        self._watchdog.progress()
        return not self.was_asked_to_stop()

    def was_asked_to_stop(self) -> bool:
        """Whether it was, on any process."""
        return any_process(self._signals.asked_to_stop)

    def is_comparison_due(self, update: int, updates: int) -> bool:
        """Whether it was time for that in the chunk of so many updates, up to this one."""
        interval = self._config.replica_check_interval
        return update // interval > (update - updates) // interval

    def compare_now(self, learner: Any) -> None:
        """Diverged if devices differ in what should be the same on all."""
        replicas.check(learner, self._mesh)
