"""The length of the next chunk of updates."""

from __future__ import annotations

from collections.abc import Collection

from hackmatrix.train.config import Config


def next_chunk(config: Config, update: int, ends: Collection[int] = ()) -> int:
    """How many updates to do next, after so many are done; 0 when all are. A chunk ends where a
    checkpoint is due by the number of updates, and at each of `ends`.
    """
    nearest = [update + config.log_interval, config.num_updates]
    nearest += [end for end in ends if end > update]
    if interval := config.save_interval:
        nearest.append((update // interval + 1) * interval)
    return max(min(nearest) - update, 0)
