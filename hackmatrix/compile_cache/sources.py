"""What this package is made of, and which versions it stands on.

The package imports this before all else of it: what a process imports later is what it was then, or
it `has_changed`.
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
    """A short hash of all source files of a package, by default this one, as they were when it was
    first asked for: of this one that was when this module was imported.
    """
    files = {str(path.relative_to(package)): path for path in _files(package)}
    return short_hash(b"".join(name.encode() + files[name].read_bytes() for name in sorted(files)))


def has_changed() -> bool:
    """Whether a source file was written since: this process may run what was there before, or, if
    that was taken back, what was there meanwhile.
    """
    return _written(PACKAGE) != _WRITTEN


def _written(package: Path) -> set[tuple[Path, int, int]]:
    """Which source files there are, and when they were written."""
    found = set()
    for file in _files(package):
        with suppress(FileNotFoundError):  # just now
            at = file.stat()
            found.add((file, at.st_ino, at.st_ctime_ns))
    return found


def _files(package: Path) -> Iterator[Path]:
    """Hidden ones are those of an editor."""
    for folder, _, names in os.walk(package):
        yield from (Path(folder, name) for name in names if name.endswith(".py") and name[0] != ".")


def short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@functools.cache
def version(package: str) -> str | None:
    """The version of an installed package."""
    from importlib import metadata  # only here: standalone programs ask for none

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


_WRITTEN = _written(PACKAGE)  # first of both, so that no edit in between goes unseen
source_hash()
