"""The schedule of a run: how many environment steps and seconds its updates have taken.

An update takes num_envs x num_steps steps. Where a run is resumed with other sizes, the updates go
on to be counted one by one, as draws are keyed by their number, and the steps from where they were.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from hackmatrix.train.config import Config
from hackmatrix.train.runs.clock import Clock


@dataclass(frozen=True)
class Schedule:
    """Where a session starts (updates, environment steps and seconds already done), and the limits
    that end it. `clock` is that of the session.
    """

    config: Config
    update: int = 0
    steps: int = 0
    seconds: float = 0.0
    clock: Clock = field(default_factory=Clock, compare=False)

    def steps_after(self, update: int) -> int:
        """The environment steps of the run when so many updates are done."""
        return self.steps + (update - self.update) * self.config.batch_size

    @property
    def last_update(self) -> int:
        """The number of updates with which the run is done; a new run has one at least."""
        left = max(self.config.total_timesteps - self.steps, 0) // self.config.batch_size
        return max(self.update + left, 1)

    def is_time_up(self, seconds: float) -> bool:
        """Whether so many seconds of training reach time_limit_minutes."""
        limit = self.config.time_limit_minutes
        return limit is not None and seconds >= 60 * limit

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to train."""
        return self.update >= self.last_update or self.is_time_up(self.seconds)

    def next_chunk(self, update: int, ends: Collection[int] = ()) -> int:
        """How many updates to do next, after so many are done; 0 when all are. A chunk ends where a
        checkpoint is due by the number of updates, and at each of `ends`.
        """
        nearest = [update + self.config.log_interval, self.last_update]
        nearest += [end for end in ends if end > update]
        if interval := self.config.save_interval:
            nearest.append((update // interval + 1) * interval)
        return max(min(nearest) - update, 0)

    @property
    def extra_updates(self) -> float:
        """The steps so far in updates of today's batch size, minus the updates done: what schedules
        add after the batch size changed.
        """
        return self.steps / self.config.batch_size - self.update
