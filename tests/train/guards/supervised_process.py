"""A program without JAX that is supervised like the trainer. It works in C, as a compiler does,
where Python runs no signal handlers. Its first argument chooses what it does when a signal comes.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from hackmatrix.train.guards.supervision import of_environment

BLOCK = 20_000_000  # rounds: some seconds


def work_in_c(rounds: int = BLOCK) -> None:
    hashlib.pbkdf2_hmac("sha256", b"", b"", rounds)


def say(line: str) -> None:
    print(line, flush=True)


class SlowToLeave(ModuleType):
    """Delays the exit of Python, which deletes modules last of all."""

    def __init__(self) -> None:
        super().__init__("slow")

    def __del__(self, say: Callable[[str], None] = say) -> None:
        say("ready")
        sys.stdin.readline()
        say("gone")


def main(phase: str, directory: Path) -> None:
    supervision = of_environment()
    supervision.start()
    signals = supervision.signals
    if phase == "before":
        directory.mkdir()
        signals.ends("Nothing to save", undo=directory.rmdir)
        say("ready")
        work_in_c()
    elif phase == "within":
        with signals.noted(say):
            say("ready")
            while not signals.asked_to_stop:
                time.sleep(0.01)
            work_in_c()
    elif phase == "after":
        with signals.noted(say):
            say("ready")
            while not signals.asked_to_stop:
                time.sleep(0.01)
        sys.stdin.readline()
        say("saved")
        sys.exit(42)
    elif phase == "leaving":
        sys.modules["slow"] = SlowToLeave()
    elif phase == "unheard":
        say("ready")
        sys.stdin.readline()
        supervision.watchdog.arm("No tea was made", 0.5)
        time.sleep(60)
    elif phase == "hanging":
        watchdog = supervision.watchdog
        watchdog.arm("No tea was made", 5.0)
        say("ready")
        sys.stdin.readline()
        time.sleep(0.6)  # the watchdog looks before progress is reported
        watchdog.progress()
        say("awake")
        time.sleep(60)


main(sys.argv[1], Path(sys.argv[2]))
