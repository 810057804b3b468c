"""The mirror of a run that lives in a bucket: the files that it writes on this machine, copied as
they grow, and before each checkpoint, so that a run that goes on from there lacks no earlier
metrics. A bucket has no append. A small file that has grown is copied whole; of a large one what is
new is sent, and the bucket joins the two: metrics of a month are some hundred megabytes.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from hackmatrix.train.runs import atomic_files, copies
from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.lease import Lease, TakenOver

_EVERY = 30.0  # seconds
_LARGE = 2**20  # bytes


class Mirror:
    """Within it files are copied every half minute, and once more at the end. A bucket that is away
    is tried again; what could not be copied at last stays on this machine, and that is said.
    Afterwards `has_sent_all` tells whether there is nothing like that.
    """

    def __init__(self, run: Run, lease: Lease | None, say: Callable[[str], None]) -> None:
        self._directory, self._lease, self._say = run.directory, lease, say
        self._bucket = run.place if isinstance(run.place, Bucket) and lease else None
        self.has_sent_all = self._bucket is None
        self._copied: dict[Path, os.stat_result] = {}
        self._over, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._copy_always, name="mirror", daemon=True)

    def __enter__(self) -> Self:
        if self._bucket:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._bucket:
            return
        self._over.set()
        self._thread.join()
        try:
            self.copy()
        except (OSError, TakenOver) as error:
            self._say(f"The files in {self._directory} are not all in {self._bucket}: {error}")
            copies.keep(self._directory)
            return
        self.has_sent_all = True
        if not (self._directory / copies.WANDB).exists():  # it may have to be sent later
            shutil.rmtree(self._directory, ignore_errors=True)

    def catch_up(self) -> str | None:
        """Copies what there is now; what stands in the way, if that cannot be done. TakenOver where
        the run is not ours any more, also on a disk.
        """
        if self._lease:
            self._lease.confirm()
        try:
            if self._bucket:
                self.copy()
        except OSError as error:
            return f"the files of the run cannot be copied: {error}"
        return None

    def copy(self) -> None:
        """Copies the files that have changed. OSError if that cannot be done now."""
        with self._lock:
            self._copy()

    def _copy(self) -> None:
        assert self._bucket  # only then is there a mirror
        assert self._lease
        self._lease.confirm()
        for file in sorted(self._directory.rglob("*")):
            inside = file.relative_to(self._directory)
            is_passing = atomic_files.is_unfinished(file) or not file.is_file()
            if is_passing or inside.parts[0] == copies.WANDB:
                continue
            before, now = self._copied.get(inside), file.stat()
            if before and _moment(before) == _moment(now):
                continue
            self._copied.pop(inside, None)  # what fails now is copied whole the next time
            there = self._bucket / str(inside)
            if before and _has_grown(before, now) and before.st_size >= _LARGE:
                there.extend(file)
            else:
                there.store(file)
            self._copied[inside] = now

    def _copy_always(self) -> None:
        failing = False
        while not self._over.wait(_EVERY):
            try:
                self.copy()
            except TakenOver:
                return  # the loop says so
            except OSError as error:
                if not failing:
                    self._say(f"The run's files are not copied, which is tried again: {error}")
                failing = True
            else:
                failing = False


def _moment(file: os.stat_result) -> tuple[int, int]:
    return file.st_size, file.st_mtime_ns


def _has_grown(before: os.stat_result, now: os.stat_result) -> bool:
    """Whether it is the same file, not a new one in its place."""
    return before.st_ino == now.st_ino and before.st_size < now.st_size
