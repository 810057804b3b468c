"""Signals that ask a run to stop: SIGTERM when a machine is preempted, SIGINT from a person, SIGHUP
when the terminal is closed, unless it is ignored, as after nohup.

A thread handles them, because the main thread may compile or wait for a device for minutes, and
Python runs no signal handlers meanwhile.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from hackmatrix import streams
from hackmatrix.exit_codes import RETRY

NOTHING_TO_SAVE = "Stopped before the first update; nothing to save"
_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A program may get one signal twice: directly and from its supervisor, when the machine shuts down,
# or from its shell, when the terminal is closed.
_SAME_SIGNAL_SECONDS = 2


class Signals:
    """Handles the signals after `start`; before, they have their usual effect. A signal ends the
    program at once, as there is nothing to save. Within `noted`, the first signal is only noted,
    and a later one ends the program.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._say: Callable[[str], None] | None = None
        self._noted_at: float | None = None
        self.ends(NOTHING_TO_SAVE)

    def start(self) -> None:
        """Starts to handle signals. Must be called in the main thread."""
        heard, told = os.pipe()
        os.set_blocking(told, False)
        # Python writes the signal number to this pipe, whatever the main thread is doing.
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        for number in _ASKING:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        threading.Thread(target=self._listen, args=(heard,), name="signals", daemon=True).start()
        atexit.register(_ignore)  # registered first, so it is called last

    @property
    def asked_to_stop(self) -> bool:
        return self._noted_at is not None

    def seconds_since(self) -> float | None:
        """Returns for how many seconds the signal has been noted; None if there was none."""
        return None if self._noted_at is None else time.monotonic() - self._noted_at

    def ends(
        self, words: str, code: int = RETRY, undo: Callable[[], int | None] = lambda: None
    ) -> None:
        """Sets what a signal outside of `noted` does from now on: it calls `undo`, which may return
        another exit code, and ends the program with this message and code.
        """
        with self._changing:
            self._words, self._code, self._undo = words, code, undo

    @contextmanager
    def noted(self, say: Callable[[str], None]) -> Iterator[None]:
        """A context in which the program polls `asked_to_stop`, saves and stops by itself."""
        with self._changing:
            self._say = say
        try:
            yield
        finally:
            with self._changing:
                self._say = None

    def _listen(self, heard: int) -> None:
        while True:
            for number in os.read(heard, 64):
                if number in _ASKING:
                    with self._changing:  # never released if this ends the program
                        self._heed(signal.Signals(number))

    def _heed(self, number: signal.Signals) -> None:
        seconds = self.seconds_since()
        if seconds is not None and number != signal.SIGINT and seconds < _SAME_SIGNAL_SECONDS:
            return
        if self._say is None:
            code = RETRY
            try:
                code = self._undo() or self._code
            finally:
                _end(self._words, code)
        elif seconds is None:
            self._noted_at = time.monotonic()
            words = "saving and stopping; a second signal stops at once, without saving"
            say_if_possible(self._say, f"{number.name}: {words}")
        else:
            _end("Stopped without saving; any earlier checkpoints remain", RETRY)


def say_if_possible(say: Callable[[str], None], line: str) -> None:
    """Prints the line if possible. The stream may be closed, or the signal may have interrupted a
    print, which raises RuntimeError; that must not prevent the stop.
    """
    with suppress(OSError, ValueError, RuntimeError):
        say(line)


def _ignore() -> None:
    """Ignores signals at exit. Python restores their default effect before it ends, which takes a
    while, and a signal would then kill a program that has done its work.
    """
    for number in _ASKING:
        signal.signal(number, signal.SIG_IGN)


def _end(words: str, code: int) -> NoReturn:
    """Ends the program from this thread, as the main thread may be busy for long."""
    with suppress(OSError, ValueError):  # the stream may be closed
        print(words, file=sys.stderr, flush=True)
    streams.flush()
    os._exit(code)
