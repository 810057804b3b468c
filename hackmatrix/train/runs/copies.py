"""Directories of this machine for runs that live in a bucket: NAME-PROCESS-XXXXXXXX among the
temporary files, until the process ends. One that was killed leaves its own.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path

from hackmatrix.train.runs.lease import begun

WANDB = "wandb"  # a folder that Weights & Biases uploads by itself
_UNSENT = "unsent"  # a file that says that something here is not in the bucket


def new(name: str) -> Path:
    """Where this process may copy the run of that name."""
    return _folder() / f"{name}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def keep(copy: Path) -> None:
    """Something in it could not be sent to the bucket, and is nowhere else."""
    with suppress(OSError):  # the folder itself may be gone
        (copy / _UNSENT).touch()


def remove_left(name: str) -> None:
    """Removes what processes that are gone have left of the run, which is in the bucket."""
    for copy in _folder().glob(f"{name}-*"):
        owner = re.fullmatch(rf"{re.escape(name)}-(\d+)-[0-9a-f]{{8}}", copy.name)
        is_left = owner is not None and begun(int(owner[1])) is None
        if is_left and not any((copy / each).exists() for each in (_UNSENT, WANDB)):
            shutil.rmtree(copy, ignore_errors=True)


def _folder() -> Path:
    return Path(tempfile.gettempdir())
