"""The shelf: which checkpoints lie in a directory, whole or not, and how they are cleared away.

On a disk orbax writes a checkpoint beside its place and renames it at last. In a bucket, where
nothing can be renamed, it writes into the place itself, and a mark at last.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable

from hackmatrix.train.checkpoints.saving import one_line
from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.protocol import WHOLE, Place, Unavailable, is_step

UNFINISHED = ".orbax-checkpoint-tmp"


def steps(directory: Place) -> list[int]:
    """The steps of the finished checkpoints, the oldest first; a few of them may be damaged."""
    found = [int(name) for name in directory.names() if is_step(name)]
    return sorted(step for step in found if _is_finished(directory / str(step)))


def unfinished(directory: Place) -> list[Place]:
    """What was being written when a process ended."""
    found = [directory / name for name in sorted(directory.names())]
    return [
        each
        for each in found
        if UNFINISHED in each.name or (is_step(each.name) and not _is_finished(each))
    ]


def put_aside(checkpoints: Iterable[Place], say: Callable[[str], None]) -> list[str]:
    """Says what they are called now; gives a line for each that stays where it is."""
    stay = []
    for checkpoint in checkpoints:
        try:
            say(f"{checkpoint} is kept as {_put_aside(checkpoint)}")
        except Unavailable:  # which may pass, so it is tried again
            raise
        except OSError as error:
            stay.append(f"{checkpoint} cannot be put aside: {one_line(error)}")
    return stay


def milestones(steps: Collection[int], most: int) -> list[int]:
    """At most so many of the steps, and once there are some at least half as many, that are spread
    over all of them: the first in each stretch but the first. As steps grow the stretches double,
    and what is the first in one of twice the length was the first in one of the two before.
    """
    firsts: dict[int, int] = {}
    length, newest = 1, max(steps, default=0)
    while newest // length > most:
        length *= 2
    for step in sorted(steps):
        firsts.setdefault(step // length, step)
    return [step for stretch, step in firsts.items() if stretch]


def _put_aside(checkpoint: Place) -> str:
    """Its new name, which no other has."""
    names = (f"{checkpoint.name}.aside-{number}" for number in itertools.count(1))
    aside = next(name for name in names if not (checkpoint.parent / name).exists())
    checkpoint.move(aside)
    return aside


def _is_finished(checkpoint: Place) -> bool:
    return not isinstance(checkpoint, Bucket) or (checkpoint / WHOLE).exists()
