"""Atomic replacement of a run's files: a reader finds the old content or the new one.

Only the process that holds the run writes them, so unfinished files have fixed names: what a killed
process left behind is recognised, and the next writer replaces it.
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
    """Returns the path of the new file until it is complete."""
    return path.with_suffix(whole_files.UNFINISHED)


def is_unfinished(path: Path) -> bool:
    return path.suffix == whole_files.UNFINISHED
