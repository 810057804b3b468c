"""Places where runs live: directories and files on a disk or in a bucket, by the same operations.

A bucket has no append, no rename and no directories; what runs need of a place is so little that
it has both forms. Whatever goes wrong is an OSError.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from hackmatrix.errors import UserError
from hackmatrix.train.runs import atomic_files

BUCKETS = "gs://"
# What is written last into a directory of many files, such as a checkpoint, marks it as whole.
WHOLE = "commit_success.txt"
_ADDRESS = re.compile(r"\w+:/+")
_BUCKET = re.compile(rf"{BUCKETS}[a-z0-9][a-z0-9._-]*(/|$)")


class UnknownPlace(UserError):
    """An address of some other kind, or of no bucket that there can be."""


class Away(ConnectionError):
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


@dataclass(frozen=True)
class Disk:
    """A place on a disk."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def address(self) -> str:
        return str(self.path.absolute())

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def parent(self) -> Disk:
        return Disk(self.path.parent)

    def __truediv__(self, name: str) -> Disk:
        return Disk(self.path / name)

    def names(self) -> list[str]:
        try:
            return os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self) -> bool:
        try:  # newer Pythons' Path.exists says no where a disk cannot be reached, too
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def read(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def write(self, text: str) -> None:
        atomic_files.write(self.path, text)

    def create(self, text: str) -> bool:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = self.path.open("x", encoding="utf-8")
        except FileExistsError:
            return False
        try:
            with file:
                file.write(text)
        except OSError:
            self.path.unlink(missing_ok=True)  # or others take it for made
            raise
        return True

    def claim(self) -> bool:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.path.mkdir()
        except FileExistsError:
            return False
        return True

    def changed_at(self) -> float:
        return self.path.stat().st_mtime

    def move(self, name: str) -> None:
        self.path.rename(self.path.with_name(name))

    def remove(self) -> None:
        if self.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            self.path.unlink(missing_ok=True)

    def try_to_write(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.path) as file:
            file.write(bytes(1 << 16))  # a full disk still has room for a name
            file.flush()


def place(where: str | Path | Place) -> Place:
    """The place of a path, or of an address such as gs://BUCKET/runs."""
    if isinstance(where, str | Path):
        return _named(where)
    if hasattr(where, "address"):
        return where
    raise UnknownPlace(f"{where!r} is no place: name a directory, or {BUCKETS}BUCKET/...")


def _named(where: str | Path) -> Place:
    if str(where).startswith(BUCKETS):
        if not _BUCKET.match(str(where)):
            raise UnknownPlace(
                f"{where} names no bucket: say {BUCKETS}BUCKET/..., with a name of small letters, "
                "digits, hyphens, underscores and dots"
            )
        from hackmatrix.train.runs.bucket import Bucket

        return Bucket(str(where).rstrip("/"))
    if address := _ADDRESS.match(str(where)):
        raise UnknownPlace(f"{address[0]} is not known; name a directory, or {BUCKETS}BUCKET/...")
    path = on_disk(where)
    return Disk(path if path.name not in ("", "..") else path.resolve())


def on_disk(where: str | Path) -> Path:
    """The path of what is written to a disk alone."""
    if _ADDRESS.match(str(where)):
        raise UnknownPlace(
            f"{where} is on no disk: name a path here, and copy from there afterwards"
        )
    return Path(os.path.expanduser(where))
