"""The watchdog: ends a process that hangs, so that it can be started again."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time

# For what has no pace of its own: a start, a compilation, a restoration, an answer of a network.
LONG = 3600.0
_TICK_SECONDS = 5.0
_TICKS = 10  # at least, in the time that something may take
_LATE_TICKS = 3  # as no machine is that busy: the whole process was suspended


class Watchdog:
    """Once it is started, what is expected has to happen every so many seconds. If not, it writes
    down what every thread was doing, and kills the process, whose other threads may hold anything.
    Time in which the process is suspended does not count. Unless it is started, it does nothing.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.arm("The start did not end", LONG)

    def start(self) -> None:
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def arm(self, failure: str, seconds: float) -> None:
        """From now on something else is done. What is to be said if it does not get further for so
        many seconds, such as "No game was finished".
        """
        with self._changed:
            self._failure, self._seconds, self._done_at = failure, seconds, time.monotonic()
            self._changed.notify()

    def progress(self) -> None:
        """What is expected has happened just now."""
        self._done_at = time.monotonic()

    def _watch(self) -> None:
        now = self._done_at
        while True:
            with self._changed:
                before = now
                self._changed.wait(self._tick())
                now = time.monotonic()  # only once: it may be suspended between any two lines
                # By the tick of what is expected now, as it may be suspended just after a change.
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
                "go on with --resume=auto. Where each of its threads was:",
                file=sys.stderr,
                flush=True,
            )
            faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        finally:  # also where nobody is listening
            os.kill(os.getpid(), signal.SIGKILL)
