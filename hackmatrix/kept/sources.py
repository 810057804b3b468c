"""What this package is made of, and which versions it stands on."""

from __future__ import annotations

import functools
import hashlib
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


@functools.cache
def source_hash() -> str:
    """A short hash of all source files of this package."""
    files = {str(path.relative_to(PACKAGE)): path for path in PACKAGE.rglob("*.py")}
    return short_hash(b"".join(name.encode() + files[name].read_bytes() for name in sorted(files)))


def short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def version(package: str) -> str | None:
    """Of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
