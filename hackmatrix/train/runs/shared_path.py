"""Tests whether a place is the same for all processes, by a sentinel file."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from hackmatrix.train.runs.protocol import Place

PATIENCE = 10.0  # seconds


def leave_sentinel(directory: Place) -> Place:
    """A new empty file in the directory, which is made if need be."""
    sentinel = directory / f".seen-by-all-{uuid.uuid4().hex}"
    sentinel.create("")
    return sentinel


def becomes_true(condition: Callable[[], bool]) -> bool:
    """Whether it does so soon: a network disk may show late what another process did."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
