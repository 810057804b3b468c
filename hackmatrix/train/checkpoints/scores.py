"""Scores of checkpoints: how good the agent was measured to be, in the metadata of those it was
measured at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hackmatrix.train.checkpoints import manifest
from hackmatrix.train.runs.protocol import Away, Place

SCORE = "score"


class Best(NamedTuple):
    """The highest score, and the step of its checkpoint: the newest of several."""

    score: float
    step: int


def best(directory: Place, steps: Iterable[int]) -> Best | None:
    """The best of these checkpoints in a directory; None if none of them has a score. Away if that
    cannot be known now.
    """
    return max(_scored(directory, steps), default=None)


def _scored(directory: Place, steps: Iterable[int]) -> Iterator[Best]:
    for step in steps:
        try:
            score = manifest.read(directory / str(step)).metadata[SCORE]
            if not math.isnan(score):  # nothing is better or worse
                yield Best(score, step)
        except Away:  # or the best would be unknown, and cleared away
            raise
        except Exception:
            # Damage shows as errors of many types, and is said when the checkpoint is restored.
            continue
