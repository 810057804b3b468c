"""Replaces files atomically: a reader finds the old content or the new one, never a part."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

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


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Makes an OSError raised inside name this file, not the unfinished one."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
