"""The guard of a run: decides when it stops, and compares its replicas."""

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
    """Makes all processes stop at the same update. Chunks end at the updates in `ends`, too."""

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
        """Arms the watchdog for an operation of unknown length; if it hangs, prints `failure`."""
        self._watchdog.arm(failure, max(LONG, 60 * self._config.watchdog_minutes))

    def arm_for_chunk(self) -> None:
        """Arms the watchdog for a chunk, which may take watchdog_minutes."""
        seconds = 60 * self._config.watchdog_minutes
        self._watchdog.arm("No chunk of updates was finished", seconds)

    def next_chunk(self, update: int, seconds: float) -> int:
        """Returns how many updates to do next, after `update` updates and `seconds` of training; 0
        if all are done, the time limit is reached, or the run was asked to stop.
        """
        self.arm_for_chunk()
        if self.was_asked_to_stop() or self._schedule.is_time_up(seconds):
            return 0
        return self._schedule.next_chunk(update, self._ends)

    def report_progress(self) -> bool:
        """Reports progress to the watchdog; returns False once the run was asked to stop."""
        self._watchdog.progress()
        return not self.was_asked_to_stop()

    def was_asked_to_stop(self) -> bool:
        """Whether any process was asked to stop."""
        return any_process(self._signals.asked_to_stop)

    def is_comparison_due(self, update: int, updates: int) -> bool:
        """Whether a comparison became due in the last chunk: `updates` updates, up to `update`."""
        interval = self._config.replica_check_interval
        return update // interval > (update - updates) // interval

    def compare_now(self, learner: Any) -> None:
        """Raises Diverged if the replicas of the learner differ between devices."""
        replicas.check(learner, self._mesh)
