"""Atomic replacement of files: a reader finds the old content or the new one, never a part."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_UNFINISHED = ".new"


def write(path: Path, text: str) -> None:
    write_lines(path, [text.encode()])


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    fresh = unfinished(path)
    try:
        with fresh.open("wb") as opened:
            opened.writelines(lines)
            opened.flush()
            os.fsync(opened.fileno())  # or after a power cut the new file may be there, and empty
    except OSError:
        fresh.unlink(missing_ok=True)  # a half of it would fill the disk for good
        raise
    os.replace(fresh, path)


def unfinished(path: Path) -> Path:
    """Where the new one is until it is whole."""
    return path.with_suffix(_UNFINISHED)


def is_unfinished(path: Path) -> bool:
    return path.suffix == _UNFINISHED
