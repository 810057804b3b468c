"""Directories of this machine for runs that live in a bucket: NAME-PROCESS-XXXXXXXX among the
temporary files, until the process ends. One that was killed leaves its own.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from pathlib import Path

_UNSENT = "unsent"  # a file that says that something here is not in the bucket


def new(name: str) -> Path:
    """Where this process may copy the run of that name."""
    return _folder() / f"{name}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def keep(copy: Path) -> None:
    """Something in it could not be sent to the bucket, and is nowhere else."""
    (copy / _UNSENT).touch()


def remove_left(name: str) -> None:
    """Removes what processes that are gone have left of the run, which is in the bucket."""
    for copy in _folder().glob(f"{name}-*"):
        owner = re.fullmatch(rf"{re.escape(name)}-(\d+)-[0-9a-f]{{8}}", copy.name)
        wanted = [copy / _UNSENT, copy / "wandb"]  # the latter's uploads go their own way
        if owner and not _is_there(int(owner[1])) and not any(each.exists() for each in wanted):
            shutil.rmtree(copy, ignore_errors=True)


def _folder() -> Path:
    return Path(tempfile.gettempdir())


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True
