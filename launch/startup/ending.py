"""Ends a program quietly: on Ctrl-C, or when nobody reads its output any more."""

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


def end_quietly(program: str) -> None:
    """From now on Ctrl-C and a broken pipe end the program without a traceback. Other exceptions
    still print one.
    """
    is_stopped = False
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # set by launch/__init__.py
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # If it was closed from the start it is None, which makes print use standard output.
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        nonlocal is_stopped
        if issubclass(kind, KeyboardInterrupt):
            is_stopped = True
            _tell_stopped(program)
        elif not issubclass(kind, BrokenPipeError):
            sys.__excepthook__(kind, error, trace)

    def tell_too(ignored: Any) -> None:
        """Handles Ctrl-C during garbage collection, after which Python would go on."""
        if isinstance(ignored.exc_value, KeyboardInterrupt):
            tell(KeyboardInterrupt, ignored.exc_value, None)
            _end_as_by_ctrl_c()
        else:
            sys.__unraisablehook__(ignored)

    def end() -> None:
        """Ends a stopped program before Python's teardown, which XLA may not survive if it was
        interrupted. Others end without a garbage collection of all that JAX has traced, which takes
        up to a second.
        """
        if is_stopped:
            _end_as_by_ctrl_c()
        gc.freeze()

    sys.excepthook, sys.unraisablehook = tell, tell_too
    atexit.register(end)  # registered first, so it is called last
    atexit.register(streams.flush, BrokenPipeError)  # a full disk stays an error


@contextlib.contextmanager
def at_once(program: str) -> Iterator[None]:
    """Makes Ctrl-C end the program immediately: an exception in the middle of JAX's import would
    crash it, or be swallowed. Where training already handles Ctrl-C, its handler stays.
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


def exit_when_terminated() -> None:
    """Makes SIGTERM and SIGHUP end the program as sys.exit does, which removes its temporary files
    and ends the processes it has started.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def _is_main_thread() -> bool:
    """Whether this is the main thread, the only one in which Python lets signal handlers be set."""
    return threading.current_thread() is threading.main_thread()


def _tell_stopped(program: str) -> None:
    # Nobody may be reading, or the signal may have interrupted a write to this stream.
    with contextlib.suppress(OSError, RuntimeError):
        print(f"\n{program}: stopped", file=sys.stderr, flush=True)


def _end_as_by_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)
