"""Local copies of runs that live in a bucket: directories NAME-PROCESS-XXXXXXXX in the temporary
directory. A copy lasts until its process ends; a killed process leaves it behind.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path

from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.lease import process_started
from hackmatrix.train.runs.places import Disk
from hackmatrix.train.runs.protocol import one_line_errors

WANDB = "wandb"  # a folder that Weights & Biases uploads itself
_UNSENT = "unsent"  # a file that marks a copy with something that is not in the bucket


def new(name: str) -> Path:
    """Returns a fresh path for this process's copy of the run with that name."""
    return _folder() / f"{name}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def fetch(bucket: str, copy: Path) -> None:
    """Copies the files of a run in a bucket; if that fails, nothing is left behind."""
    with one_line_errors(f"the run {bucket} cannot be copied to {copy.parent}"):
        try:
            copy.mkdir(parents=True, exist_ok=True)
            Bucket(bucket).fetch_files(copy)
        except BaseException:
            shutil.rmtree(copy, ignore_errors=True)
            raise


def mark_unsent(copy: Path) -> None:
    """Marks a copy as one to keep: something in it is not in the bucket, so nowhere else."""
    with suppress(OSError):  # the folder itself may be gone
        (copy / _UNSENT).touch()


def remove(copy: Path) -> None:
    """Removes a copy, except what Weights & Biases may still have to upload."""
    with suppress(OSError):
        for each in copy.iterdir():
            if each.name != WANDB:
                Disk(each).remove()
        copy.rmdir()  # fails if something is left


def remove_left(name: str) -> None:
    """Removes dead processes' copies of the run, except what is still to be uploaded."""
    for copy in _folder().glob(f"{name}-*"):
        owner = re.fullmatch(rf"{re.escape(name)}-(\d+)-[0-9a-f]{{8}}", copy.name)
        is_left = owner is not None and process_started(int(owner[1])) is None
        if is_left and not (copy / _UNSENT).exists():
            remove(copy)


def _folder() -> Path:
    return Path(tempfile.gettempdir())
