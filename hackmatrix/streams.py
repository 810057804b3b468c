"""Standard output and standard error, whose disk may be full and whose reader may be gone."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def flush(given_up: type[OSError] = OSError) -> None:
    """Flushes both streams. What standard output cannot write, with an error of the kind
    `given_up`, is dropped, as is all that standard error cannot: Python would try again at exit,
    and then fail.
    """
    for stream, dropped in ((sys.stdout, given_up), (sys.stderr, OSError)):
        if stream is None:  # closed from the start
            continue
        try:
            stream.flush()
        except dropped:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(line: str) -> None:
    """Prints a line on standard output; does nothing where that cannot be written."""
    with contextlib.suppress(OSError, ValueError):
        print(line, flush=True)


def has_colours(out: TextIO) -> bool:
    """Whether `out` is a terminal that shows colours, and NO_COLOR is not set (no-color.org)."""
    is_dumb = os.environ.get("TERM") == "dumb"
    return out.isatty() and not is_dumb and not os.environ.get("NO_COLOR")
