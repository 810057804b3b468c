"""The end of a program that is not wanted any more: by Ctrl-C, or where nobody reads it."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from hackmatrix import streams


def is_quiet(program: str) -> None:
    """From now on such an end is no traceback. A mistake of ours still is one."""
    is_stopped = False
    # Where it was closed from the start, what is meant for it would go to standard output.
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        nonlocal is_stopped
        if issubclass(kind, KeyboardInterrupt):
            is_stopped = True
            _tell_stopped(program)
        elif not issubclass(kind, BrokenPipeError):
            sys.__excepthook__(kind, error, trace)

    def tell_too(ignored: Any) -> None:
        """As of Ctrl-C while garbage is collected: Python would go on."""
        if isinstance(ignored.exc_value, KeyboardInterrupt):
            tell(KeyboardInterrupt, ignored.exc_value, None)
            _end_as_by_ctrl_c()
        else:
            sys.__unraisablehook__(ignored)

    def end() -> None:
        """Before Python takes apart what XLA, stopped amid its work, may not survive. And without
        looking through all that JAX has traced for garbage, which takes up to a second.
        """
        if is_stopped:
            _end_as_by_ctrl_c()
        gc.freeze()

    sys.excepthook, sys.unraisablehook = tell, tell_too
    atexit.register(end)  # first of all, so it is called last
    atexit.register(streams.flush, BrokenPipeError)  # on a full disk what was asked for is lost


@contextlib.contextmanager
def at_once(program: str) -> Iterator[None]:
    """Within it Ctrl-C ends the program there and then: an exception amid JAX's import would crash
    it, or be swallowed. Where a training heeds Ctrl-C, it is left to that.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or not _is_main_thread():
        yield
        return

    def end(*_: object) -> None:
        _tell_stopped(program)
        _end_as_by_ctrl_c()

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_main_thread() -> bool:
    """Only there Python allows to say what a signal does."""
    return threading.current_thread() is threading.main_thread()


def _tell_stopped(program: str) -> None:
    # Nobody may be listening, or it was just being written there.
    with contextlib.suppress(OSError, RuntimeError):
        print(f"\n{program}: stopped", file=sys.stderr, flush=True)


def _end_as_by_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)
