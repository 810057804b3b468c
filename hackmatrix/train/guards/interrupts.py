"""Handles Ctrl-C, or a notebook's stop button, in a program that goes on after training."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hackmatrix.train.guards.signals import Signals, say_if_possible


class Interrupts(Signals):
    """Signals that are not to be started. Within `noted`, the first interrupt asks the run to stop.
    A later one raises KeyboardInterrupt, as does any outside of `noted`. Other signals are left
    alone; so are all signals in threads other than the main one, where Python allows no handlers.
    The program itself can ask, too.
    """

    _is_asked = False

    def ask_to_stop(self) -> None:
        self._is_asked = True

    @property
    def asked_to_stop(self) -> bool:
        return self._is_asked or super().asked_to_stop

    @contextmanager
    def noted(self, say: Callable[[str], None]) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(*_: object) -> None:
            signal.signal(signal.SIGINT, before)
            self._noted_at = time.monotonic()
            words = "saving and stopping; interrupt again to stop at once, without saving"
            say_if_possible(say, f"Interrupted: {words}")

        before = signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
