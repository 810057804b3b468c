"""The shelf: which checkpoints a directory has, finished or not, and how they are put aside.

On a disk, orbax writes a checkpoint beside its final place, and then renames it. In a bucket, which
has no rename, it writes into the final place, and then adds a marker.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable

from hackmatrix.train.checkpoints.saving import one_line
from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.protocol import WHOLE, Place, Unavailable, asked, is_step

UNFINISHED = ".orbax-checkpoint-tmp"


def steps(directory: Place) -> list[int]:
    """Returns the steps of the finished checkpoints, oldest first; some may be damaged."""
    found = [directory / name for name in directory.names() if is_step(name)]
    return sorted(int(each.name) for each, whole in asked(_is_finished, found).items() if whole)


def unfinished(directory: Place) -> list[Place]:
    """Returns checkpoints that are being written, or were when their process ended."""
    found = [directory / name for name in sorted(directory.names())]
    whole = asked(_is_finished, [each for each in found if is_step(each.name)])
    return [each for each in found if UNFINISHED in each.name or not whole.get(each, True)]


def put_aside(checkpoints: Iterable[Place], say: Callable[[str], None]) -> list[str]:
    """Renames the checkpoints and reports their new names; returns a line for each that cannot be
    renamed.
    """
    stay = []
    for checkpoint in checkpoints:
        try:
            say(f"{checkpoint} was renamed to {_put_aside(checkpoint)}")
        except Unavailable:  # temporary, so a later save tries it again
            raise
        except OSError as error:
            stay.append(f"{checkpoint} cannot be renamed: {one_line(error)}")
    return stay


def milestones(steps: Collection[int], most: int) -> list[int]:
    """Returns at most `most` steps, and at least half as many once there are enough, spread over
    all: the first step in each stretch of equal length, except the first stretch. As steps grow,
    the length doubles. The first step in the doubled stretch was the first in one of its halves, so
    it has been kept.
    """
    firsts: dict[int, int] = {}
    length, newest = 1, max(steps, default=0)
    while newest // length > most:
        length *= 2
    for step in sorted(steps):
        firsts.setdefault(step // length, step)
    return [step for stretch, step in firsts.items() if stretch]


def _put_aside(checkpoint: Place) -> str:
    """Renames the checkpoint; returns its new name, which is unique."""
    names = (f"{checkpoint.name}.aside-{number}" for number in itertools.count(1))
    aside = next(name for name in names if not (checkpoint.parent / name).exists())
    checkpoint.move(aside)
    return aside


def _is_finished(checkpoint: Place) -> bool:
    return not isinstance(checkpoint, Bucket) or (checkpoint / WHOLE).exists()
