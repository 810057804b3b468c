"""Signs of life while a person waits. Nothing here needs JAX."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS_BETWEEN_LINES = 5


@contextmanager
def waiting(what: str, say: Callable[[str], None]) -> Iterator[None]:
    """Says what is being waited for, for how long already, and in the end how long it took."""
    done = threading.Event()
    start = time.monotonic()

    def say_so_far() -> None:
        while not done.wait(_SECONDS_BETWEEN_LINES):
            say(f"{what}: {time.monotonic() - start:.0f} s so far")

    say(f"{what} ...")
    thread = threading.Thread(target=say_so_far, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    say(f"{what}: done in {time.monotonic() - start:.1f} s")
