"""Scores of checkpoints: how good the agent was measured to be, in the metadata of those it was
measured at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from hackmatrix.train.checkpoints import manifest
from hackmatrix.train.checkpoints.saving import one_line
from hackmatrix.train.runs.protocol import Away, Place

SCORE = "score"
_DAMAGE = FileNotFoundError, NotADirectoryError, IsADirectoryError


class Best(NamedTuple):
    """The highest score, and the step of its checkpoint: the newest of several."""

    score: float
    step: int


class Scores(NamedTuple):
    """The best of those checkpoints whose score is known, None if there are none, and the others:
    their steps, and why they cannot be read, which may pass. One of them may be the best.
    """

    best: Best | None
    unread: list[tuple[int, str]]


def read(directory: Place, steps: Iterable[int]) -> Scores:
    """The scores of these checkpoints in a directory. Away if that cannot be reached now."""
    scored: list[Best] = []
    unread: list[tuple[int, str]] = []
    for step in steps:
        try:
            score = manifest.read(directory / str(step)).metadata[SCORE]
            if not math.isnan(score):  # nothing is better or worse
                scored.append(Best(score, step))
        except Away:
            raise
        except OSError as error:
            if not isinstance(error, _DAMAGE):
                unread.append((step, one_line(error)))
        except Exception:
            # Damage shows as errors of many types, and is said when the checkpoint is restored.
            continue
    return Scores(max(scored, default=None), unread)
