"""The clock of a run: seconds since its start, of training, and of each phase."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Clock:
    """Seconds since it was made, how many of them each phase took, and those of training, which are
    counted over all starts of a run.
    """

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._training_began: float | None = None
        self._trained_before = 0.0
        self._spent: dict[str, float] = defaultdict(float)

    def seconds(self) -> float:
        return time.monotonic() - self._start

    def begin_training(self, trained_before: float) -> None:
        """Training begins now; earlier starts of the run have trained for so many seconds."""
        self._training_began, self._trained_before = time.monotonic(), trained_before

    def trained(self) -> float:
        """The seconds that the run has trained for."""
        began = self._training_began
        return self._trained_before + (0.0 if began is None else time.monotonic() - began)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Counts the time inside for the phase."""
        start = self.seconds()
        try:
            yield
        finally:
            self._spent[name] += self.seconds() - start

    def spent(self) -> Mapping[str, float]:
        """The seconds of each phase so far."""
        return dict(self._spent)
