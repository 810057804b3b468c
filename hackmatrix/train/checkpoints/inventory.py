"""The inventory of a checkpoint: its files and their hashes, to detect any change.

The arrays and the manifest have digests of their own, which decide whether a checkpoint is used. An
inventory also covers files that nothing reads: a disk that changes those may change the rest next.
(A bucket keeps checksums itself.)
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from hackmatrix.train.runs import atomic_files
from hackmatrix.train.runs.places import Disk
from hackmatrix.train.runs.protocol import Place
from hackmatrix.whole_files import parsed

NAME = "inventory.json"
_OWN = {NAME, atomic_files.unfinished(Path(NAME)).name}


def take(checkpoint: Place) -> None:
    """Writes the inventory of a checkpoint on a disk. A checkpoint is valid without one."""
    if isinstance(checkpoint, Disk):
        with suppress(OSError):
            atomic_files.write(checkpoint.path / NAME, _text(_hashes(checkpoint.path)))


def changed(checkpoint: Place) -> list[str]:
    """Returns the files that have changed or can no longer be read. Returns none without an
    inventory, as when a run was killed before it wrote one, or if the checkpoint was removed
    meanwhile.
    """
    if not isinstance(checkpoint, Disk):
        return []
    directory = checkpoint.path
    try:
        text = (directory / NAME).read_bytes()
    except FileNotFoundError:
        return []
    except OSError:
        return [NAME]
    now = _hashes(directory)
    if text == _text(now).encode() or not os.path.exists(directory / NAME):
        return []
    try:
        then = parsed(text, dict)
    except ValueError:
        return [NAME]
    return sorted(name for name in then | now if then.get(name) != now.get(name)) or [NAME]


def _hashes(directory: Path) -> dict[str, str]:
    """Returns the hashes of the files that can be read."""
    files = sorted(Path(folder, name) for folder, _, names in os.walk(directory) for name in names)
    hashes = {}
    for file in files:
        if file.name not in _OWN:
            with suppress(OSError):
                hashes[str(file.relative_to(directory))] = _hash(file)
    return hashes


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(hashes: dict[str, str]) -> str:
    return json.dumps(hashes, indent=1) + "\n"
