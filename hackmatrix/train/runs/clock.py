"""The clock of a run: seconds since its start, of training, and of each phase."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Clock:
    """Measures the seconds since it was made, the seconds in each phase, and the seconds of
    training, which add up over all starts of a run.
    """

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._training_began: float | None = None
        self._trained_before = 0.0
        self._spent: dict[str, float] = defaultdict(float)

    def seconds(self) -> float:
        return time.monotonic() - self._start

    def begin_training(self, trained_before: float) -> None:
        """Starts to count training seconds, on top of those of earlier starts of the run."""
        self._training_began, self._trained_before = time.monotonic(), trained_before

    def trained(self) -> float:
        """Returns for how many seconds the run has trained."""
        began = self._training_began
        return self._trained_before + (0.0 if began is None else time.monotonic() - began)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time spent inside the context to the phase."""
        start = self.seconds()
        try:
            yield
        finally:
            self._spent[name] += self.seconds() - start

    def spent(self) -> Mapping[str, float]:
        """Returns the seconds spent in each phase so far."""
        return dict(self._spent)
