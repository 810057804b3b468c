"""What this package is made of, and which versions it stands on."""

from __future__ import annotations

import functools
import hashlib
import time
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
_BEGAN = time.time()


@functools.cache
def source_hash(package: Path = PACKAGE) -> str:
    """A short hash of all source files of a package, by default this one."""
    files = {str(path.relative_to(package)): path for path in package.rglob("*.py")}
    return short_hash(b"".join(name.encode() + files[name].read_bytes() for name in sorted(files)))


def has_changed(package: Path = PACKAGE) -> bool:
    """Whether a source file is younger than this process, which may run what was there before."""
    try:
        return any(path.stat().st_mtime >= _BEGAN for path in package.rglob("*.py"))
    except FileNotFoundError:  # just now
        return True


def short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def version(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
