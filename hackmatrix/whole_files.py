"""Replaces files atomically: a reader finds the old content or the new one, never a part. A file
may still be damaged later, by a disk or by hand; `parsed` finds that.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T", dict, list)

UNFINISHED = ".new"


def of_its_own(path: Path) -> Path:
    """Returns a unique name for the unfinished file, as others may write one at the same time."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}{UNFINISHED}")


def write(
    contents: Mapping[Path, Iterable[bytes]], unfinished: Callable[[Path], Path] = of_its_own
) -> None:
    """Replaces the files, the first only after all are written. If one cannot be written or
    replaced, an OSError names it, and the unfinished files are removed.
    """
    with ExitStack() as removal:
        fresh = {path: unfinished(path) for path in contents}
        for path, content in contents.items():
            with _named(path), fresh[path].open("wb") as opened:
                removal.callback(fresh[path].unlink, missing_ok=True)
                opened.writelines(content)
                opened.flush()
                os.fsync(opened.fileno())  # or a power cut may leave it in place, but empty
        for path in contents:
            with _named(path):
                os.replace(fresh[path], path)
        removal.pop_all()


def parsed(text: str | bytes, kind: type[T]) -> T:
    """Returns the JSON object (dict) or array (list) in the text; raises ValueError for any other
    text, so also for JSON of another kind or nested too deeply.
    """
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(found, kind):
        raise ValueError(f"it is not a JSON {'object' if kind is dict else 'array'}")
    return found


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Makes an OSError raised inside name this file, not the unfinished one."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
