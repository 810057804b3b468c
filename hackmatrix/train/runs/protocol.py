"""The operations that runs need of the place where they live, few enough for a disk and a bucket.

A bucket has no append, no rename and no directories. Every failure is an OSError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, Self, TypeVar

from hackmatrix.errors import UserError

T = TypeVar("T")
_AT_ONCE = 16  # questions to a bucket, each of which takes a twentieth of a second or more
# This file is written last into a directory such as a checkpoint, and marks it as whole.
WHOLE = "commit_success.txt"


def is_step(name: str) -> bool:
    """Whether this can be the name of a checkpoint: the number of a step, without leading zeros."""
    return name.isdecimal() and name == str(int(name))


def steps_in(checkpoints: Place) -> list[int]:
    """Returns the steps of the checkpoints in a directory, finished or not, oldest first."""
    with one_line_errors(f"{checkpoints} cannot be read"):
        return sorted(int(name) for name in checkpoints.names() if is_step(name))


class Unavailable(ConnectionError):
    """A place cannot be reached now, but may be later."""


@contextmanager
def one_line_errors(what: str, hint: str = "") -> Iterator[None]:
    """Turns an OSError into a UserError that begins with `what`, unless it is Unavailable."""
    try:
        yield
    except Unavailable:  # not the user's mistake
        raise
    except OSError as error:
        raise UserError(f"{what}: {error.strerror or error}{hint}") from error


class Place(Protocol):
    """A directory or a file. Its `str`, for people and for `place`, is its path or address."""

    @property
    def address(self) -> str:
        """An absolute path or address, for other libraries."""

    @property
    def name(self) -> str: ...

    @property
    def parent(self) -> Place: ...

    def __truediv__(self, name: str) -> Self: ...

    def names(self) -> list[str]:
        """Returns the names of the entries of this directory; none if it does not exist."""

    def exists(self) -> bool:
        """Whether this file or directory exists."""

    def read(self) -> str:
        """Returns the text of this file; raises FileNotFoundError if it does not exist."""

    def write(self, text: str) -> None:
        """Replaces this file atomically. Its directory must exist."""

    def create(self, text: str) -> bool:
        """Creates this file unless it exists. If several try at once, one returns True."""

    def claim(self) -> bool:
        """Creates this directory unless it exists. If several try at once, one returns True."""

    def changed_at(self) -> float:
        """Returns when this file was written, in seconds since 1970."""

    def move(self, name: str) -> None:
        """Renames this directory within its parent. If interrupted, it is whole under one of the
        two names.
        """

    def remove(self) -> None:
        """Deletes this file or directory with its contents; no error if it does not exist."""

    def try_to_write(self) -> None:
        """Creates this directory and writes into it, to find out whether that is possible."""


def asked(question: Callable[[Place], T], places: Sequence[Place]) -> dict[Place, T]:
    """Returns the answer of each place; several are asked at a time."""
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        return dict(zip(places, pool.map(question, places), strict=True))
    finally:  # an error or an interrupt does not wait for the other answers
        pool.shutdown(wait=False, cancel_futures=True)
