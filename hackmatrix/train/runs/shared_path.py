"""Tests with a sentinel file whether a place is the same for all processes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from hackmatrix.train.runs.protocol import Place

PATIENCE = 10.0  # seconds
_SENTINEL = ".seen-by-all-"


def leave_sentinel(directory: Place) -> Place:
    """Creates a new empty file in the directory, which is created if necessary."""
    sentinel = directory / f"{_SENTINEL}{uuid.uuid4().hex}"
    sentinel.create("")
    return sentinel


def remove_sentinels(directory: Place) -> None:
    """Removes sentinels that earlier processes left when they ended before all had looked."""
    for name in directory.names():
        if name.startswith(_SENTINEL):
            (directory / name).remove()


def becomes_true(condition: Callable[[], bool]) -> bool:
    """Whether the condition is true within PATIENCE seconds: on a network disk, changes of another
    process may appear late.
    """
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
