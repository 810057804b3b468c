"""Places where runs live, on a disk or in a bucket, and how paths and addresses name them."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hackmatrix.errors import UserError
from hackmatrix.train.runs import atomic_files
from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.protocol import Place

BUCKETS = "gs://"
_ADDRESS = re.compile(r"\w+:/+")
_UNFIT = re.compile(r"\[[^/]+\]|\\|[\ud800-\udfff]")  # must not occur in a checkpoint's path
_NOWHERE = errno.ENOENT, errno.ENOTDIR, errno.ELOOP  # the path leads nowhere
_BUCKET = re.compile(rf"{BUCKETS}[a-z0-9][a-z0-9._-]*(/|$)")


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
        try:  # Path.exists of newer Pythons returns False even if the disk cannot be reached
            self.path.stat()
        except OSError as error:
            if error.errno not in _NOWHERE:
                raise
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
            self.path.unlink(missing_ok=True)  # else other processes take it for complete
            raise
        return True

    def claim(self) -> bool:
        self.check_name()
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
        self.check_name()
        self.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.path) as file:
            file.write(bytes(1 << 16))  # an empty file fits even on a full disk
            file.flush()

    def check_name(self) -> None:
        """Raises OSError for a path at which a checkpoint could not be found again. Orbax globs for
        its files with the whole path as part of the pattern; tensorstore, which writes the arrays,
        reads a backslash as a slash and accepts only UTF-8.
        """
        if odd := _UNFIT.search(self.address):
            told = odd[0].encode(errors="backslashreplace").decode()
            raise OSError(
                errno.EINVAL, f"checkpoints cannot be kept at a path that contains {told}"
            )


def place(where: str | Path | Place) -> Place:
    """Returns the place at a path, or at an address such as gs://BUCKET/runs."""
    if isinstance(where, str | Path):
        return _named(where)
    if hasattr(type(where), "address"):
        return where
    raise UserError(f"{where!r} is not a path: use a directory or {BUCKETS}BUCKET/...")


def without_alias(there: Place) -> Place:
    """Resolves a symbolic link to a directory beside it, such as `latest`. A link to a run
    elsewhere, such as on another disk, stays as it is, so the run keeps the link's name.
    """
    if isinstance(there, Disk):
        with suppress(OSError):  # not a link
            target = there.path.parent / os.readlink(there.path)
            beside = os.path.realpath(target.parent) == os.path.realpath(there.path.parent)
            if beside and there.exists():  # False for links that lead to each other
                return without_alias(there.parent / target.name)
    return there


def _named(where: str | Path) -> Place:
    if str(where).startswith(BUCKETS):
        if not _BUCKET.match(str(where)):
            raise UserError(
                f"{where} is not a valid bucket path: use {BUCKETS}BUCKET/..., where BUCKET has "
                "only lowercase letters, digits, hyphens, underscores and dots"
            )
        return Bucket(str(where).rstrip("/"))
    if address := _ADDRESS.match(str(where)):
        raise UserError(
            f"{address[0]} paths are not supported: use a directory or {BUCKETS}BUCKET/..."
        )
    path = on_disk(where)
    return Disk(path if path.name not in ("", "..") else path.resolve())


def on_disk(where: str | Path) -> Path:
    """Returns the path of something that is only ever written to a disk."""
    if _ADDRESS.match(str(where)):
        raise UserError(
            f"{where} is not a local path: write to a local path and copy it afterwards"
        )
    return Path(os.path.expanduser(where))
