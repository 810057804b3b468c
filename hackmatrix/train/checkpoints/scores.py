"""Scores of checkpoints: the results of evaluations, in the metadata of the checkpoints at which
they were made.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

from hackmatrix.train.checkpoints import manifest
from hackmatrix.train.checkpoints.saving import one_line
from hackmatrix.train.runs.protocol import Place, Unavailable, asked

SCORE = "score"
GAMES = "games"  # how many games the score is a mean over
_DAMAGE = FileNotFoundError, NotADirectoryError, IsADirectoryError


class Best(NamedTuple):
    """The highest of the kept scores that are means over equally many games, and the step of its
    checkpoint: of the newest, if several have it. (An equal score is no reason to save.)
    """

    score: float
    step: int
    games: int | None  # how many games the score is a mean over; None for earlier revisions


class Scores(NamedTuple):
    """The scores in a directory. `best` is the best known score, if any; `by_games` has the steps
    of the best checkpoint for each number of games; `unread` has the steps of checkpoints that
    cannot be read for now, one of which may be the best, and the reasons.
    """

    best: Best | None
    by_games: list[int]
    unread: list[tuple[int, str]]


def read(directory: Place, steps: Collection[int]) -> Scores:
    """Reads the scores of these checkpoints; raises Unavailable if the directory cannot be reached.

    Only means over as many games as the newest compete for the best, because means over fewer games
    are more often high by luck.
    """
    scored: list[Best] = []
    unread: list[tuple[int, str]] = []
    manifests = asked(_manifest, [directory / str(step) for step in steps])
    for step, found in zip(steps, manifests.values(), strict=True):
        try:
            if isinstance(found, Exception):
                raise found
            score = found.metadata[SCORE]
            if not math.isnan(score):  # NaN compares with nothing
                scored.append(Best(score, step, found.metadata.get(GAMES)))
        except OSError as error:
            if not isinstance(error, _DAMAGE):
                unread.append((step, one_line(error)))
        except Exception:
            # Damage causes errors of many types, and is reported when the checkpoint is restored.
            continue
    highest = {each.games: each.step for each in sorted(scored)}  # the highest for each number
    return Scores(max(_alike(scored), default=None), sorted(highest.values()), unread)


def _manifest(checkpoint: Place) -> manifest.Manifest | Exception:
    """Returns the manifest of a checkpoint, or the error that prevents reading it."""
    try:
        return manifest.read(checkpoint)
    except Unavailable:  # so are the others
        raise
    except Exception as error:
        return error


def _alike(scored: list[Best]) -> list[Best]:
    """Returns the scores over as many games as the newest one with a number, or over an unknown
    number.
    """
    told = [each for each in scored if each.games is not None]
    if not told:
        return scored
    today = max(told, key=lambda each: each.step).games
    return [each for each in scored if each.games in (None, today)]
