"""A cache of files: one that is damaged, or was written by another user, counts as missing."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

_FOLDER = "hackmatrix"
_DIGEST = hashlib.sha256().digest_size
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Files:
    """The files of a directory, which several processes may use at once. Those that have not been
    used for the longest time are removed when all together take more than `most_bytes`.
    """

    directory: Path
    most_bytes: int = _MOST_BYTES

    def read(self, name: str) -> bytes | None:
        path = self.directory / name
        try:
            with path.open("rb") as file:
                if not _is_ours(os.fstat(file.fileno())):
                    return None
                content = file.read()
        except OSError:
            return None
        with contextlib.suppress(OSError):  # a shared file may be read-only
            os.utime(path)  # marks it as used
        digest, packed = content[:_DIGEST], content[_DIGEST:]
        return zlib.decompress(packed) if _digest(packed) == digest else None

    def write(self, name: str, content: bytes) -> None:
        """Replaces the file atomically, or does nothing if it cannot be written."""
        packed = zlib.compress(content, level=1)
        with contextlib.suppress(OSError):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, fresh = tempfile.mkstemp(dir=self.directory)
            try:
                with open(handle, "wb") as file:
                    file.write(_digest(packed) + packed)
                os.replace(fresh, self.directory / name)
            except OSError:
                os.unlink(fresh)
                raise
            self._make_room()

    def _make_room(self) -> None:
        found = [(path, path.stat()) for path in self.directory.iterdir()]
        total = 0
        for path, about in sorted(found, key=lambda each: -each[1].st_mtime):
            total += about.st_size
            if total > self.most_bytes:
                path.unlink(missing_ok=True)


def folder_in(cache: Path) -> Path:
    """Returns the folder of this user's files in a directory that several users may share."""
    folder = cache / _FOLDER
    try:
        is_ours = _is_ours(folder.stat())
    except OSError:
        return folder
    return folder if is_ours else cache / f"{_FOLDER}-{os.getuid()}"


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _is_ours(about: os.stat_result) -> bool:
    """Whether a file belongs to this user: code that another user wrote must not be run."""
    return not hasattr(os, "getuid") or about.st_uid == os.getuid()
