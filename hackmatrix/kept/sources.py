"""What this package is made of, and which versions it stands on."""

from __future__ import annotations

import functools
import hashlib
import os
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


@functools.cache
def source_hash(package: Path = PACKAGE) -> str:
    """A short hash of all source files of a package, by default this one, as they were when it was
    first asked for: of this one that was when this module was imported.
    """
    return _hash(package)


def _hash(package: Path) -> str:
    files = {str(path.relative_to(package)): path for path in package.rglob("*.py")}
    return short_hash(b"".join(name.encode() + files[name].read_bytes() for name in sorted(files)))


def has_changed() -> bool:
    """Whether the source files are others now: this process may run what was there before."""
    try:
        return _written() != _WRITTEN and _hash(PACKAGE) != source_hash()
    except FileNotFoundError:  # just now
        return True


def _written() -> set[tuple[str, int, int]]:
    """Which source files there are, and when they were written: much sooner known than what they
    say, and the same as long as that is.
    """
    files = (
        os.path.join(folder, name)
        for folder, _, names in os.walk(PACKAGE)
        for name in names
        if name.endswith(".py")
    )
    return {(file, (at := os.stat(file)).st_ino, at.st_ctime_ns) for file in files}


def short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@functools.cache
def version(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


_WRITTEN = _written()  # first of both, so that no edit in between goes unseen
source_hash()
