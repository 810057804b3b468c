"""Signals that ask a run to stop: SIGTERM when a machine is preempted, SIGINT from a person."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Self

DONE, FAILED, RETRY = 0, 1, 42  # exit codes: finished; do not retry; saved, to be continued
# A machine that shuts down may signal a program and its supervisor, which passes it on.
_SAME_SIGNAL_SECONDS = 2


class Signals:
    """Within it the first signal is noted, and a later one ends the program at once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._before: dict[signal.Signals, signal._HANDLER] = {}
        self._noted_at = 0.0
        self.asked_to_stop = False

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked_to_stop:
            if time.monotonic() - self._noted_at > _SAME_SIGNAL_SECONDS:
                os._exit(RETRY)
            return
        self.asked_to_stop, self._noted_at = True, time.monotonic()
        name = signal.Signals(number).name
        self._say(
            f"{name}: saving and stopping; the same signal again stops at once, without saving"
        )
