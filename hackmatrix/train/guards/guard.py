"""The guard of a run: signals, a time limit, a watchdog, and the comparison of replicas."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Self

from jax.sharding import Mesh

from hackmatrix.parallel.agreement import on_any
from hackmatrix.train.config import Config
from hackmatrix.train.guards import replicas
from hackmatrix.train.guards.schedule import next_chunk
from hackmatrix.train.guards.signals import Signals
from hackmatrix.train.guards.watchdog import Watchdog
from hackmatrix.train.runs.clock import Clock


class Guard:
    """Within it a signal asks the run to stop, instead of ending the process. All processes stop at
    the same update. At the updates in `ends` a chunk has to end.
    """

    def __init__(
        self, config: Config, mesh: Mesh, say: Callable[[str], None], ends: Collection[int] = ()
    ) -> None:
        self._config, self._mesh, self._ends = config, mesh, ends
        self._signals = Signals(say)
        self._clock = Clock()
        self.watchdog = Watchdog(60 * config.watchdog_minutes)

    def __enter__(self) -> Self:
        self._signals.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._signals.__exit__()

    def next_chunk(self, update: int) -> int:
        """How many updates to do next, after so many are done; 0 when all are, when the time is up,
        or when the run was asked to stop.
        """
        self.watchdog.progress()
        if on_any(self._signals.asked_to_stop or self._is_time_up()):
            return 0
        return next_chunk(self._config, update, self._ends)

    def was_asked_to_stop(self) -> bool:
        """Whether it was, on any process."""
        return on_any(self._signals.asked_to_stop)

    def compare_replicas(self, update: int, updates: int, learner: Any) -> None:
        """Diverged if a comparison was due in the chunk of so many updates, up to this one, and
        devices differ in what should be the same on all.
        """
        interval = self._config.replica_check_interval
        if update // interval > (update - updates) // interval:
            replicas.check(learner, self._mesh)

    def _is_time_up(self) -> bool:
        limit = self._config.time_limit_minutes
        return limit is not None and self._clock.seconds() >= 60 * limit
