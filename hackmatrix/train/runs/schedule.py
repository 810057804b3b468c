"""The schedule of a run: how many environment steps and seconds its updates have taken.

An update takes num_envs x num_steps steps. If a run is resumed with other sizes, both counts go on
from where they were; updates are not rescaled, because draws are keyed by the update's number.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from hackmatrix.train.config import Config
from hackmatrix.train.runs.clock import Clock


@dataclass(frozen=True)
class Schedule:
    """Where a session starts (updates, environment steps and training seconds already done), and
    the limits that end it. `clock` is the session's clock.
    """

    config: Config
    update: int = 0
    steps: int = 0
    seconds: float = 0.0
    clock: Clock = field(default_factory=Clock, compare=False)

    def steps_after(self, update: int) -> int:
        """Returns the run's environment steps after this many updates."""
        return self.steps + (update - self.update) * self.config.batch_size

    @property
    def last_update(self) -> int:
        """The number of updates after which the run is complete, at least 1."""
        left = max(self.config.total_timesteps - self.steps, 0) // self.config.batch_size
        return max(self.update + left, 1)

    def is_time_up(self, seconds: float) -> bool:
        """Whether this many seconds of training reach time_limit_minutes."""
        limit = self.config.time_limit_minutes
        return limit is not None and seconds >= 60 * limit

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to train."""
        return self.update >= self.last_update or self.is_time_up(self.seconds)

    def next_chunk(self, update: int, ends: Collection[int] = ()) -> int:
        """Returns how many updates to do next when `update` of them are done; 0 if that is all. A
        chunk ends where save_interval makes a checkpoint due, and at each of `ends`.
        """
        nearest = [update + self.config.log_interval, self.last_update]
        nearest += [end for end in ends if end > update]
        if interval := self.config.save_interval:
            nearest.append((update // interval + 1) * interval)
        return max(min(nearest) - update, 0)

    @property
    def extra_updates(self) -> float:
        """The steps so far, in updates of the current batch size, minus the updates done. Annealed
        settings add it to the count of updates, as the batch size may have changed.
        """
        return self.steps / self.config.batch_size - self.update
