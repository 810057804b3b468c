"""Atomic replacement of a run's files: a reader finds the old content or the new one.

Only who holds the run writes them. So the names of unfinished ones are fixed: what a killed process
left behind is known as such, and the next writer replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hackmatrix import whole_files


def write(path: Path, text: str) -> None:
    write_lines(path, [text.encode()])


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    whole_files.write({path: lines}, unfinished)


def unfinished(path: Path) -> Path:
    """Where the new one is until it is whole."""
    return path.with_suffix(whole_files.UNFINISHED)


def is_unfinished(path: Path) -> bool:
    return path.suffix == whole_files.UNFINISHED
