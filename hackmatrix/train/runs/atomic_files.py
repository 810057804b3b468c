"""Atomic replacement of files: a reader finds the old content or the new one, never a part."""

from __future__ import annotations

import os
from pathlib import Path

_UNFINISHED = ".new"


def write(path: Path, text: str) -> None:
    fresh = unfinished(path)
    with fresh.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())  # or after a power cut the new file may be there, and empty
    os.replace(fresh, path)


def unfinished(path: Path) -> Path:
    """Where the new one is until it is whole."""
    return path.with_suffix(_UNFINISHED)


def is_unfinished(path: Path) -> bool:
    return path.suffix == _UNFINISHED
