"""The watchdog: ends a process that hangs, so that it can be started again."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from typing import Self


class Watchdog:
    """Within it, something has to be done every so many seconds. If not, it writes down what every
    thread was doing, and kills the process, whose other threads may hold anything.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._done_at = time.monotonic()
        self._left = threading.Event()

    def progress(self) -> None:
        """Something was done just now."""
        self._done_at = time.monotonic()

    def __enter__(self) -> Self:
        self.progress()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()

    def _watch(self) -> None:
        while (idle := time.monotonic() - self._done_at) < self._seconds:
            if self._left.wait(self._seconds - idle):
                return
        print(
            f"No chunk of updates was finished for {self._seconds:g} s (watchdog_minutes): this "
            "process ends; go on with --resume=auto. Where each of its threads was:",
            file=sys.stderr,
            flush=True,
        )
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        os.kill(os.getpid(), signal.SIGKILL)
