"""Whether a directory is the same for all processes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import jax

from hackmatrix.parallel.agreement import everyone, first

PATIENCE = 10.0  # seconds


def strangers(directory: Path) -> list[int]:
    """The processes that do not see what the first one writes there. All processes call this."""
    sentinel = directory / f".seen-by-all-{first(uuid.uuid4().hex)}"
    error = None
    if jax.process_index() == 0:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            sentinel.touch()
        except OSError as failure:
            error = str(failure)
    if error := first(error):
        raise OSError(error)
    seen = everyone(soon(sentinel.exists))
    if jax.process_index() == 0:
        sentinel.unlink()
    return [process for process, sees in enumerate(seen) if not sees]


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it comes true; a network disk may show late what another process did."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
