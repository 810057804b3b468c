"""Prints progress while a person waits. Nothing here needs JAX."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Note = Callable[[str], None]
_SECONDS_BETWEEN_LINES = 5


@contextmanager
def waiting(what: str, say: Callable[[str], None]) -> Iterator[Note]:
    """Prints what is being waited for, the time so far every few seconds, and the total time at the
    end. The function that it yields adds a note, such as how much is done, to the next lines.
    """
    done = threading.Event()
    start = time.monotonic()
    noted = ""

    def note(text: str) -> None:
        nonlocal noted
        noted = f", {text}"

    def say_so_far() -> None:
        while not done.wait(_SECONDS_BETWEEN_LINES):
            say(f"{what}: {time.monotonic() - start:.0f} s so far{noted}")

    say(f"{what} ...")
    thread = threading.Thread(target=say_so_far, daemon=True)
    thread.start()
    try:
        yield note
    finally:
        done.set()
        thread.join()
    say(f"{what}: done in {time.monotonic() - start:.1f} s")
