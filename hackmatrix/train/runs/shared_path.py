"""Tests with a sentinel file whether a place is the same for all processes."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable

from hackmatrix.parallel.agreement import gather_results, is_first, on_first
from hackmatrix.train.runs.protocol import Place, one_line_errors

PATIENCE = 10.0  # seconds
_SENTINEL = ".seen-by-all-"


def blind_processes(directory: Place) -> list[int]:
    """Returns the processes that do not see a file that the first one creates in `directory`, or in
    what this path is for them. All processes call this; all raise UserError if one cannot write or
    look there.
    """

    def leave() -> str:
        with one_line_errors(f"{directory} cannot be written to"):
            return leave_sentinel(directory).name

    sentinel = directory / on_first(leave)

    def sees() -> bool:
        with one_line_errors(f"{directory} cannot be read"):
            return becomes_true(sentinel.exists)

    try:
        seen = gather_results(sees)
    finally:
        if is_first():
            with contextlib.suppress(OSError):
                sentinel.remove()
    return [process for process, sees_it in enumerate(seen) if not sees_it]


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
