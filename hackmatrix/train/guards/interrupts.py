"""Ctrl-C, or a notebook's button, while a run is trained in a program that goes on after it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hackmatrix.train.guards.signals import Signals, tell


class Interrupts(Signals):
    """Not to be started. Within `noted` the first interrupt asks the run to stop, and a later one
    is a KeyboardInterrupt, as any is outside of it. No other signal is touched, and in a thread
    that is not the main one, where Python allows no handlers, none at all.
    """

    @contextmanager
    def noted(self, say: Callable[[str], None]) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(*_: object) -> None:
            signal.signal(signal.SIGINT, before)
            self._noted_at = time.monotonic()
            tell(say, "Interrupted: saving and stopping; again stops at once, without saving")

        before = signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
