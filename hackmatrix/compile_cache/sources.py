"""Hashes of the sources of this package, and the versions of others.

The package imports this module before all others: what a process imports later is what was hashed,
or it `has_changed`.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


@functools.cache
def source_hash(package: Path = PACKAGE) -> str:
    """Returns a short hash of all source files of a package, as they were at the first call. For
    this package, the default, that was when this module was imported.
    """
    files = {str(path.relative_to(package)): path for path in _files(package)}
    return short_hash(b"".join(name.encode() + files[name].read_bytes() for name in sorted(files)))


def has_changed() -> bool:
    """Whether a source file was written since this module was imported. This process may run the
    file as it was before or, if an edit was undone, as it was in between.
    """
    return _written(PACKAGE) != _WRITTEN


def _written(package: Path) -> set[tuple[Path, int, int]]:
    """Returns the source files of a package, with their inodes and times of change."""
    found = set()
    for file in _files(package):
        with suppress(FileNotFoundError):  # deleted just now
            at = file.stat()
            found.add((file, at.st_ino, at.st_ctime_ns))
    return found


def _files(package: Path) -> Iterator[Path]:
    """Yields the source files of a package, without the hidden ones of editors."""
    for folder, _, names in os.walk(package):
        yield from (Path(folder, name) for name in names if name.endswith(".py") and name[0] != ".")


def short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@functools.cache
def version(package: str) -> str | None:
    """Returns the version of a package; None if it is not installed."""
    from importlib import metadata  # here, as standalone programs need no versions

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


_WRITTEN = _written(PACKAGE)  # before the hash, so that no edit in between goes unseen
source_hash()
