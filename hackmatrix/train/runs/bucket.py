"""Places in a bucket of Google Cloud Storage, accessed with gcsfs, which orbax uses too.

Runs need three guarantees of the service: an object appears whole or not at all, a listing shows it
at once, and a write can fail if the object exists already. gcsfs retries a request for half a
minute if the service fails or cannot be reached, and for a minute if it does not answer.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import textwrap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from hackmatrix.errors import UserError
from hackmatrix.train.runs.protocol import WHOLE, Unavailable

P = ParamSpec("P")
T = TypeVar("T")

# This support asks for the type of the bucket, and warns at each file if that is forbidden. gcsfs
# reads this on import, which may be by JAX, for its cache in a bucket.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")

_MADE = ".made"  # an object that stands for its directory
_REST = ".rest"  # holds the new part of a file until it is appended
_WRITING = "write", "create", "store"  # if one of these finds something missing, it is the bucket
_FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG  # errors of this machine's disk
_CREATE = "gcloud storage buckets create {} --location=REGION --soft-delete-duration=0"
_LOG_IN = "gcloud auth application-default login"
_PATIENCE = 5.0  # seconds without an answer, or without more of it, before a request is retried


def _with_one_line_errors(method: Callable[P, T]) -> Callable[P, T]:
    """Wraps a method so that an error of any library becomes a one-line OSError: Unavailable,
    unless the service has refused the request for good or the disk of this machine is full.
    """

    @functools.wraps(method)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except FileNotFoundError as error:
            if method.__name__ not in _WRITING or error.errno:  # an errno: a local file is missing
                raise
        except (FileExistsError, UserError):
            raise
        except Exception as error:  # from aiohttp, requests, google.auth or gcsfs
            if getattr(error, "errno", None) in _FULL:
                raise
            said = _one_line(error)
            is_wrong = isinstance(error, ValueError) or getattr(error, "code", None) == 400
            is_final = is_wrong or said.startswith("Forbidden")
            raise (OSError if is_final else Unavailable)(f"{args[0]}: {said}") from error
        bucket = "/".join(str(args[0]).split("/")[:3])
        raise OSError(f"{bucket} does not exist; create it with: {_CREATE.format(bucket)}")

    return ask


def _one_line(error: Exception) -> str:
    """Returns the error in one line."""
    if isinstance(error, TimeoutError):
        return "the service does not answer"
    said = textwrap.shorten(str(error), 200) or type(error).__name__
    # On a TPU worker this is temporary: its own credentials were briefly unavailable.
    if said.startswith("Anonymous caller"):
        return f"no Google Cloud credentials; run `{_LOG_IN}`: {said}"
    return said


@dataclass(frozen=True)
class Bucket:
    """A place in a bucket: gs://BUCKET/..., without a trailing slash."""

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
        is_bucket = self.path.count("/") == 2
        return self if is_bucket else Bucket(self.path.rpartition("/")[0])

    def __truediv__(self, name: str) -> Bucket:
        return Bucket(f"{self.path}/{name}")

    @_with_one_line_errors
    def names(self) -> list[str]:
        try:
            there = service().ls(self.path, detail=False)
        except FileNotFoundError:
            return []
        own = self.path.partition("//")[2]
        found = [each.rstrip("/") for each in there]
        names = [each.rpartition("/")[2] for each in found if each != own]
        return [each for each in names if each != _MADE]

    @_with_one_line_errors
    def exists(self) -> bool:
        return service().exists(self.path)

    @_with_one_line_errors
    def read(self) -> str:
        return service().cat_file(self.path).decode()

    @_with_one_line_errors
    def write(self, text: str) -> None:
        service().pipe_file(self.path, text.encode())

    @_with_one_line_errors
    def create(self, text: str) -> bool:
        try:
            service().pipe_file(self.path, text.encode(), mode="create")
        except FileExistsError:
            return False
        return True

    def claim(self) -> bool:
        return not self.names() and (self / _MADE).create("")

    @_with_one_line_errors
    def changed_at(self) -> float:
        return service().modified(self.path).timestamp()

    @_with_one_line_errors
    def fetch_files(self, target: Path) -> None:
        """Copies the files of this directory, not of its subdirectories, to one on a disk."""
        for each in service().ls(self.path, detail=True):
            name = each["name"].rpartition("/")[2]
            if each["type"] == "file" and name != _MADE:
                service().get_file(each["name"], str(target / name))

    @_with_one_line_errors
    def store(self, source: Path) -> None:
        """Replaces this file with a copy of one on a disk."""
        service().put_file(str(source), self.path)

    @_with_one_line_errors
    def extend(self, source: Path) -> None:
        """Appends the rest of a file on a disk to this one, which is a copy of its beginning.
        If an answer gets lost, the retry may append the rest twice: then the whole file is copied.
        """
        with source.open("rb") as file:
            file.seek(self._size())
            rest = file.read()
            size = file.tell()
        tail = f"{self.parent}/{_REST}/{self.name}"
        service().pipe_file(tail, rest)
        service().merge(self.path, [self.path, tail])
        _delete(tail)
        if self._size() != size:
            service().put_file(str(source), self.path)

    def _size(self) -> int:
        return int(service().info(self.path)["size"])

    @_with_one_line_errors
    def move(self, name: str) -> None:
        files = service().find(self.path)
        for file in sorted(files, key=_is_last):
            inside = file.removeprefix(self.path.partition("//")[2])
            service().cp_file(file, f"{self.parent / name}{inside}")
        self.remove()

    @_with_one_line_errors
    def remove(self) -> None:
        """Deletes the directory; the marker that a checkpoint is whole goes first."""
        try:
            files = service().find(self.path)
        except FileNotFoundError:  # another process has removed it
            return
        for file in sorted(files, key=_is_last, reverse=True):
            _delete(file)

    def try_to_write(self) -> None:
        (self / _MADE).write("")


def _delete(file: str) -> None:
    """Deletes a file, unless another process or a request whose answer got lost has done so."""
    with suppress(FileNotFoundError):
        service().rm_file(file)


def _is_last(file: str) -> bool:
    """Whether the file is the marker that a directory is whole, which is written last."""
    return file.endswith(f"/{WHOLE}")


@functools.cache
def service() -> Any:
    """Returns the connection to the service. It caches no listings: other processes write too."""
    try:
        import aiohttp
        import fsspec
        import gcsfs
    except ImportError as error:
        raise UserError(
            f"gs:// paths need {error.name}, which is not installed: "
            "pip install -e '.[gcp]' -c constraints.txt"
        ) from error
    patience = aiohttp.ClientTimeout(sock_connect=_PATIENCE, sock_read=_PATIENCE)
    for each in ("gcs", "gs"):  # both names, as orbax uses these settings too
        settings = fsspec.config.conf.setdefault(each, {})
        settings.update(use_listings_cache=False, requests_timeout=patience)
    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # its errors are raised and reported
    return gcsfs.GCSFileSystem()
