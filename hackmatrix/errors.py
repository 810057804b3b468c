"""The base class of errors that a user causes and can correct."""

from __future__ import annotations


class UserError(Exception):
    """Something that a user asked for cannot be done. Each line of the message says what is wrong
    and what to do; programs print these lines, without a traceback, and exit with 1.
    """

    def _render_traceback_(self) -> list[str]:
        """What a notebook prints in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]
