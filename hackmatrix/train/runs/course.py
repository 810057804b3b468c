"""The course of a run: how many environment steps and seconds its updates have taken.

An update takes num_envs x num_steps steps. Where a run is resumed with other sizes, the updates go
on to be counted one by one, as draws are keyed by their number, and the steps from where they were.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hackmatrix.train.config import Config


@dataclass(frozen=True)
class Course:
    """Of a session, which goes on after so many updates, environment steps and seconds."""

    config: Config
    update: int = 0
    steps: int = 0
    seconds: float = 0.0

    def steps_after(self, update: int) -> int:
        """The environment steps of the run when so many updates are done."""
        return self.steps + (update - self.update) * self.config.batch_size

    @property
    def last_update(self) -> int:
        """The number of updates with which the run is done; a new run has one at least."""
        left = max(self.config.total_timesteps - self.steps, 0) // self.config.batch_size
        return max(self.update + left, 1)

    def is_time_up(self, seconds: float) -> bool:
        """Whether a run that has trained for so long has done so for as long as it may."""
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
        """How many more updates of today's size the steps would have been than there were."""
        return self.steps / self.config.batch_size - self.update
