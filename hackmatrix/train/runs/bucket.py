"""Places in a bucket of Google Cloud Storage, by gcsfs, which orbax uses too.

An object appears whole or not at all, a listing shows it at once, and a write can be made to
depend on that there is none yet: that is enough for runs. gcsfs tries a request again for half a
minute where the service fails or is away, and for a minute where it does not answer.
"""

from __future__ import annotations

import functools
import logging
import os
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from hackmatrix.errors import UserError
from hackmatrix.train.runs.protocol import WHOLE, Unavailable

P = ParamSpec("P")
T = TypeVar("T")

_MADE = ".made"  # an object that stands for its directory
_REST = ".rest"  # where the rest of a file is until it is joined to it
_WRITING = "write", "create", "store"  # to these nothing can be missing but the bucket
_MAKES_IT = "gcloud storage buckets create {} --location=REGION --soft-delete-duration=0"
_PATIENCE = 5.0  # seconds without an answer, or a further part of one; then it is asked again


def _asked(method: Callable[P, T]) -> Callable[P, T]:
    """The method, whose errors of whatever library become an OSError of one line: Unavailable,
    unless the service has answered and will not answer otherwise.
    """

    @functools.wraps(method)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except FileNotFoundError as error:
            if method.__name__ not in _WRITING or error.errno:  # the latter for a file on a disk
                raise
        except (FileExistsError, UserError):
            raise
        except Exception as error:  # of aiohttp, requests, google.auth or gcsfs
            said = _said(error)
            is_wrong = isinstance(error, ValueError) or getattr(error, "code", None) == 400
            is_final = is_wrong or said.startswith("Forbidden")
            raise (OSError if is_final else Unavailable)(f"{args[0]}: {said}") from error
        bucket = "/".join(str(args[0]).split("/")[:3])
        raise OSError(f"there is no bucket {bucket}, which {_MAKES_IT.format(bucket)} would make")

    return ask


def _said(error: Exception) -> str:
    """In one line."""
    if isinstance(error, TimeoutError):
        return "the service does not answer"
    said = textwrap.shorten(str(error), 200) or type(error).__name__
    # On a worker this passes: its own credentials were not to be had for a moment.
    if said.startswith("Anonymous caller"):
        return f"nobody is logged in (gcloud auth application-default login): {said}"
    return said


@dataclass(frozen=True)
class Bucket:
    """A place in a bucket: gs://BUCKET/..., without a slash at its end."""

    path: str

    def __str__(self) -> str:
        return self.path

    @property
    def address(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Bucket:
        return Bucket(self.path.rpartition("/")[0])

    def __truediv__(self, name: str) -> Bucket:
        return Bucket(f"{self.path}/{name}")

    @_asked
    def names(self) -> list[str]:
        try:
            there = service().ls(self.path, detail=False)
        except FileNotFoundError:
            return []
        own = self.path.partition("//")[2]
        found = [each.rstrip("/") for each in there]
        names = [each.rpartition("/")[2] for each in found if each != own]
        return [each for each in names if each != _MADE]

    @_asked
    def exists(self) -> bool:
        return bool(service().exists(self.path))

    @_asked
    def read(self) -> str:
        return str(service().cat_file(self.path).decode())

    @_asked
    def write(self, text: str) -> None:
        service().pipe_file(self.path, text.encode())

    @_asked
    def create(self, text: str) -> bool:
        try:
            service().pipe_file(self.path, text.encode(), mode="create")
        except FileExistsError:
            return False
        return True

    def claim(self) -> bool:
        return not self.names() and (self / _MADE).create("")

    @_asked
    def changed_at(self) -> float:
        return float(service().modified(self.path).timestamp())

    @_asked
    def fetch_files(self, target: Path) -> None:
        """Copies the files of this directory, not those further down, into one on a disk."""
        for each in service().ls(self.path, detail=True):
            name = each["name"].rpartition("/")[2]
            if each["type"] == "file" and name != _MADE:
                service().get_file(each["name"], str(target / name))

    @_asked
    def store(self, source: Path) -> None:
        """Replaces this file by a copy of one on a disk."""
        service().put_file(str(source), self.path)

    @_asked
    def extend(self, source: Path) -> None:
        """Makes this file, which is the beginning of one on a disk, a copy of it, by sending the
        rest. An answer that got lost can leave the rest there twice: then all is copied.
        """
        with source.open("rb") as file:
            file.seek(self._size())
            rest = file.read()
            size = file.tell()
        tail = f"{self.parent}/{_REST}/{self.name}"
        service().pipe_file(tail, rest)
        service().merge(self.path, [self.path, tail])
        service().rm_file(tail)
        if self._size() != size:
            service().put_file(str(source), self.path)

    def _size(self) -> int:
        return int(service().info(self.path)["size"])

    @_asked
    def move(self, name: str) -> None:
        files = service().find(self.path)
        for file in sorted(files, key=_is_last):
            inside = file.removeprefix(self.path.partition("//")[2])
            service().cp_file(file, f"{self.parent / name}{inside}")
        self.remove()

    @_asked
    def remove(self) -> None:
        """The mark that a checkpoint is whole goes first."""
        try:
            files = service().find(self.path)
            for file in sorted(files, key=_is_last, reverse=True):
                service().rm_file(file)
        except FileNotFoundError:  # somebody else has removed it
            return

    def try_to_write(self) -> None:
        (self / _MADE).write("")


def _is_last(file: str) -> bool:
    """Whether it marks all the others as whole."""
    return file.endswith(f"/{WHOLE}")


@functools.cache
def service() -> Any:
    """The connection to the service. Its listings are never kept: other processes write too."""
    # Asks for a kind of bucket that nobody here needs, and warns at each file that it may not.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        import aiohttp
        import fsspec
        import gcsfs
    except ImportError as error:
        raise UserError(
            f"{error.name} is missing, which buckets need: "
            "pip install -e '.[gcp]' -c constraints.txt"
        ) from error
    patience = aiohttp.ClientTimeout(sock_connect=_PATIENCE, sock_read=_PATIENCE)
    for each in ("gcs", "gs"):  # for orbax, too
        settings = fsspec.config.conf.setdefault(each, {})
        settings.update(use_listings_cache=False, requests_timeout=patience)
    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # its errors are raised, and said once
    return gcsfs.GCSFileSystem()
