"""Standard output and standard error, which may be full, or read by nobody any more."""

from __future__ import annotations

import contextlib
import os
import sys


def flush(given_up: type[OSError] = OSError) -> None:
    """Prints what is still to be printed. Where that fails with such an error it is given up, as
    Python would try again at the end of the program, and make a failure of it.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # closed from the start
            continue
        try:
            stream.flush()
        except given_up:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(line: str) -> None:
    """Prints a line on standard output, unless nobody reads it any more."""
    with contextlib.suppress(OSError, ValueError):
        print(line, flush=True)
