"""Signals that ask a run to stop: SIGTERM when a machine is preempted, SIGINT from a person, SIGHUP
when the terminal is closed, unless that is to be ignored, as after nohup.

A thread heeds them: Python's main thread may compile or wait for a device for minutes, and runs no
handler of a signal meanwhile.
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
# A machine that shuts down may signal a program and its supervisor, which passes it on; so may a
# terminal that is closed, and its shell.
_SAME_SIGNAL_SECONDS = 2


def _nothing() -> None:
    """What there is to undo before anything was done."""


class Signals:
    """Once it is started, a signal ends the program at once: there is nothing to save. Within
    `noted` the first signal is noted, and a later one ends the program. Unless it is started,
    signals do what they did before.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._say: Callable[[str], None] | None = None
        self._noted_at: float | None = None
        self.ends(NOTHING_TO_SAVE)

    def start(self) -> None:
        """To be called in the main thread."""
        heard, told = os.pipe()
        os.set_blocking(told, False)
        # Python writes the number of a signal there in whichever thread it came.
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        for number in _ASKING:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        threading.Thread(target=self._listen, args=(heard,), name="signals", daemon=True).start()
        atexit.register(_ignore)  # first of all, so it is called last

    @property
    def asked_to_stop(self) -> bool:
        return self._noted_at is not None

    def seconds_since(self) -> float | None:
        """How long ago the signal was noted; None if there was none."""
        return None if self._noted_at is None else time.monotonic() - self._noted_at

    def ends(
        self, words: str, code: int = RETRY, undo: Callable[[], int | None] | None = None
    ) -> None:
        """From now on a signal that is not noted ends the program with these words and this code,
        after what is to be undone, which may give another code.
        """
        with self._changing:
            self._words, self._code, self._undo = words, code, undo or _nothing

    @contextmanager
    def noted(self, say: Callable[[str], None]) -> Iterator[None]:
        """Within it the program looks at `asked_to_stop`, saves and stops."""
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
                    with self._changing:  # for ever, where this ends the program
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
            words = "saving and stopping; again stops at once, without saving"
            tell(self._say, f"{number.name}: {words}")
        else:
            _end("Stopped at once; what was saved before stays", RETRY)


def tell(say: Callable[[str], None], line: str) -> None:
    """Where that can be done: nobody may be listening, or a line is being printed at this moment,
    which Python calls a RuntimeError. What was asked for is done all the same.
    """
    with suppress(OSError, ValueError, RuntimeError):
        say(line)


def _ignore() -> None:
    """Python is about to give signals their first meaning back and then to end, which takes it a
    while: a program that has done its work would be killed by one meanwhile.
    """
    for number in _ASKING:
        signal.signal(number, signal.SIG_IGN)


def _end(words: str, code: int) -> NoReturn:
    """Without the main thread, which may be busy for long."""
    with suppress(OSError, ValueError):  # nobody may be listening
        print(words, file=sys.stderr, flush=True)
    streams.flush()
    os._exit(code)
