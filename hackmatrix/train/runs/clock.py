"""The clock of a run: seconds since its start, and seconds spent in each phase."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Clock:
    """Seconds since it was made, and how many of them each phase took."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._spent: dict[str, float] = defaultdict(float)

    def seconds(self) -> float:
        return time.monotonic() - self._start

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Counts the time inside for the phase."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._spent[name] += time.monotonic() - start

    def spent(self) -> Mapping[str, float]:
        """The seconds of each phase so far."""
        return dict(self._spent)
