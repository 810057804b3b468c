"""The end of a program that is not wanted any more: by Ctrl-C, or where nobody reads it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from types import TracebackType


def is_quiet(program: str) -> None:
    """From now on such an end is no traceback. A mistake of ours still is one."""

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            print(f"\n{program}: stopped", file=sys.stderr, flush=True)
        elif not issubclass(kind, BrokenPipeError):
            sys.__excepthook__(kind, error, trace)

    def tell_too(ignored: sys.UnraisableHookArgs) -> None:
        """As of Ctrl-C while garbage is collected: Python would go on."""
        if not isinstance(ignored.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(ignored)
            return
        tell(KeyboardInterrupt, ignored.exc_value, None)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)

    sys.excepthook, sys.unraisablehook = tell, tell_too
    if sys.stdout is not None:  # it may have been closed from the start
        atexit.register(_flush)


def _flush() -> None:
    """What is still to be printed; Python would complain where nobody reads it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
