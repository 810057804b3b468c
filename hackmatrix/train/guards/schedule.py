"""The length of the next chunk of updates."""

from __future__ import annotations

from collections.abc import Collection

from hackmatrix.train.runs.course import Course


def next_chunk(course: Course, update: int, ends: Collection[int] = ()) -> int:
    """How many updates to do next, after so many are done; 0 when all are. A chunk ends where a
    checkpoint is due by the number of updates, and at each of `ends`.
    """
    config = course.config
    nearest = [update + config.log_interval, course.last_update]
    nearest += [end for end in ends if end > update]
    if interval := config.save_interval:
        nearest.append((update // interval + 1) * interval)
    return max(min(nearest) - update, 0)
