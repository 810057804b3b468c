"""Files that are replaced whole: a reader finds the old content or the new one, never a part."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

UNFINISHED = ".new"


def of_its_own(path: Path) -> Path:
    """Where the new one is until it is whole, whoever else writes one at the same time."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}{UNFINISHED}")


def write(
    contents: Mapping[Path, Iterable[bytes]], unfinished: Callable[[Path], Path] = of_its_own
) -> None:
    """Replaces the files: the first takes its place when all are written. Where one cannot be, an
    OSError names it, and what was begun is removed.
    """
    with ExitStack() as removal:
        fresh = {path: unfinished(path) for path in contents}
        for path, content in contents.items():
            with _named(path), fresh[path].open("wb") as opened:
                removal.callback(fresh[path].unlink, missing_ok=True)
                opened.writelines(content)
                opened.flush()
                os.fsync(opened.fileno())  # or after a power cut it may be there, and empty
        for path in contents:
            with _named(path):
                os.replace(fresh[path], path)
        removal.pop_all()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What fails inside names this file, not the one that was to take its place."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
