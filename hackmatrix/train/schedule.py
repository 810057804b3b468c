"""What is due when: the next chunk, a checkpoint, the end."""

from __future__ import annotations

from collections.abc import Collection

from hackmatrix.train.clock import Clock
from hackmatrix.train.config import Config


class Schedule:
    """Counts updates, and minutes since training began, which is when this is made. At the updates
    in `ends` a chunk has to end.
    """

    def __init__(
        self, config: Config, clock: Clock, update: int, ends: Collection[int] = ()
    ) -> None:
        self._config, self._clock, self._ends = config, clock, ends
        self._begun = self._saved_at = clock.seconds()
        self._saved_update = update

    def next_chunk(self, update: int) -> int:
        """How many updates to do next; 0 when all are done. No chunk runs over a checkpoint that is
        due at a number of updates.
        """
        ends = [update + self._config.log_interval, self._config.num_updates]
        ends += [end for end in self._ends if end > update]
        if interval := self._config.save_interval:
            ends.append((update // interval + 1) * interval)
        return max(min(ends) - update, 0)

    def is_saving_due(self, update: int) -> bool:
        if interval := self._config.save_interval:
            return update % interval == 0
        return self._clock.seconds() - self._saved_at >= 60 * self._config.save_interval_minutes

    def is_replica_check_due(self, update: int, updates: int) -> bool:
        """Whether one was due in the chunk of so many updates, up to this one."""
        interval = self._config.replica_check_interval
        return update // interval > (update - updates) // interval

    def saved(self, update: int) -> None:
        """Notes that a checkpoint of this update was made just now."""
        self._saved_at, self._saved_update = self._clock.seconds(), update

    def is_unsaved(self, update: int) -> bool:
        return update != self._saved_update

    def is_time_up(self) -> bool:
        limit = self._config.time_limit_minutes
        return limit is not None and self._clock.seconds() - self._begun >= 60 * limit
