"""The watchdog: ends a process that hangs, so that it can be started again."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time

# For operations of unknown length: a start, a compilation, a restore, a network request.
LONG = 3600.0
_TICK_SECONDS = 5.0
_TICKS = 10  # at least this many in the time limit of an operation
_LATE_TICKS = 3  # a check that is later than this means that the whole process was suspended


class Watchdog:
    """Kills the process if it makes no progress for the armed number of seconds, after it prints
    what every thread was doing. It kills because other threads may hold any lock. Time in which the
    process is suspended does not count. Unless it is started, it does nothing.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.arm("Startup did not finish", LONG)

    def start(self) -> None:
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def arm(self, failure: str, seconds: float) -> None:
        """Begins to watch another operation. `failure`, such as "No game was finished", is printed
        if it makes no progress for `seconds`.
        """
        with self._changed:
            self._failure, self._seconds, self._done_at = failure, seconds, time.monotonic()
            self._changed.notify()

    def progress(self) -> None:
        """Reports progress, which restarts the time limit."""
        self._done_at = time.monotonic()

    def _watch(self) -> None:
        now = self._done_at
        while True:
            with self._changed:
                before = now
                self._changed.wait(self._tick())
                now = time.monotonic()  # read once: a suspension may come between any two lines
                # The current tick: the process may have been suspended just after `arm` changed it.
                if now - before > (1 + _LATE_TICKS) * self._tick():
                    self.progress()
                if now - self._done_at > self._seconds:
                    self._end()

    def _tick(self) -> float:
        return min(self._seconds / _TICKS, _TICK_SECONDS)

    def _end(self) -> None:
        try:
            print(
                f"{self._failure} for {self._seconds:g} s (watchdog_minutes): this process ends; "
                "continue with --resume=auto. Stack of each thread:",
                file=sys.stderr,
                flush=True,
            )
            faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        finally:  # even if stderr is closed
            os.kill(os.getpid(), signal.SIGKILL)
