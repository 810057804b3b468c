"""The base class of errors that a user causes and can correct."""

from __future__ import annotations

from typing import Any


class UserError(Exception):
    """Something that a user asked for cannot be done. Each line of the message says what is wrong
    and what to do; programs print these lines, without a traceback, and exit with 1.
    """

    def __reduce__(self) -> Any:
        """As it is, whatever it was made of: a pool of processes sends it to who asked."""
        return _restored, (type(self), self.args, vars(self))

    def _render_traceback_(self) -> list[str]:
        """What a notebook prints in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


def _restored(kind: type[UserError], told: tuple[Any, ...], has: dict[str, Any]) -> UserError:
    error = kind.__new__(kind, *told)
    vars(error).update(has)
    return error
