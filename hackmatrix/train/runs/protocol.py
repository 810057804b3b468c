"""What runs need of the place where they live: so little that a disk and a bucket both have it.

A bucket has no append, no rename and no directories. Whatever goes wrong is an OSError.
"""

from __future__ import annotations

from typing import Protocol, Self

# What is written last into a directory of many files, such as a checkpoint, marks it as whole.
WHOLE = "commit_success.txt"


def is_step(name: str) -> bool:
    """Whether a checkpoint may be called so: by the number of a step, as such is written."""
    return name.isdecimal() and name == str(int(name))


class Unavailable(ConnectionError):
    """A place that cannot be reached now, and may be again."""


class Place(Protocol):
    """A directory or a file. Its text, for people and for `place`, is its path or address."""

    @property
    def address(self) -> str:
        """What other libraries find it by, wherever the process is."""

    @property
    def name(self) -> str: ...

    @property
    def parent(self) -> Place: ...

    def __truediv__(self, name: str) -> Self: ...

    def names(self) -> list[str]:
        """The names of what is in this directory; none if it is not there."""

    def exists(self) -> bool:
        """Whether this is there, be it a file or a directory."""

    def read(self) -> str:
        """The text of this file; FileNotFoundError if it is not there."""

    def write(self, text: str) -> None:
        """Replaces this file, in a directory that is there: readers find all of it or the old."""

    def create(self, text: str) -> bool:
        """Makes this file if nobody has; of several that try at once, one does."""

    def claim(self) -> bool:
        """Makes this directory if nobody has; of several that try at once, one does."""

    def changed_at(self) -> float:
        """When this file was written, in seconds since 1970."""

    def move(self, name: str) -> None:
        """Gives this directory another name beside its own. If that is interrupted, it is whole
        under one of the two.
        """

    def remove(self) -> None:
        """Deletes this, with all that is in it; no error if it is not there."""

    def try_to_write(self) -> None:
        """Makes this directory and writes into it, to find out whether that can be done."""
