"""Scores of checkpoints: how good the agent was measured to be, in the metadata of those it was
measured at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from hackmatrix.train.checkpoints import manifest
from hackmatrix.train.checkpoints.saving import one_line
from hackmatrix.train.runs.protocol import Place, Unavailable

SCORE = "score"
GAMES = "games"  # that it is a mean over
_DAMAGE = FileNotFoundError, NotADirectoryError, IsADirectoryError


class Best(NamedTuple):
    """The highest score of those kept that are means over equally many games, and the step of its
    checkpoint: where several have it, of the newest. (One that equals it is not saved for that.)
    """

    score: float
    step: int
    games: int | None  # that it was measured by; earlier revisions did not tell


class Scores(NamedTuple):
    """The best of those checkpoints whose score is known, None if there are none; the steps of
    those that are the best by some number of games; and of the others the steps, and why they
    cannot be read, which may pass. One of them may be the best.
    """

    best: Best | None
    by_games: list[int]
    unread: list[tuple[int, str]]


def read(directory: Place, steps: Iterable[int]) -> Scores:
    """The scores of these checkpoints in a directory. Unavailable if that cannot be reached now.

    The best is one of those measured by as many games as the newest: among means over fewer games
    there are more that are high by luck.
    """
    scored: list[Best] = []
    unread: list[tuple[int, str]] = []
    for step in steps:
        try:
            metadata = manifest.read(directory / str(step)).metadata
            score = metadata[SCORE]
            if not math.isnan(score):  # nothing is better or worse
                scored.append(Best(score, step, metadata.get(GAMES)))
        except Unavailable:
            raise
        except OSError as error:
            if not isinstance(error, _DAMAGE):
                unread.append((step, one_line(error)))
        except Exception:
            # Damage shows as errors of many types, and is said when the checkpoint is restored.
            continue
    highest = {each.games: each.step for each in sorted(scored)}  # the last of each number stays
    return Scores(max(_alike(scored), default=None), sorted(highest.values()), unread)


def _alike(scored: list[Best]) -> list[Best]:
    """Those by as many games as the newest that tells of them, and those that do not tell."""
    told = [each for each in scored if each.games is not None]
    if not told:
        return scored
    today = max(told, key=lambda each: each.step).games
    return [each for each in scored if each.games in (None, today)]
