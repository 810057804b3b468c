"""The mirror of a run that lives in a bucket: copies the files that it writes on this machine.

Files are copied as they grow, and before each checkpoint, so that a run resumed from it has all
earlier metrics. A bucket has no append. A small file that has grown is copied whole; of a large one
the new part is sent, and the bucket joins the two: a month of metrics may be gigabytes.
"""

from __future__ import annotations

import os
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
_LARGE_METRICS = 2**26


class Mirror:
    """A context in which files are copied every half minute, and once more at the end. If the
    bucket is unavailable, copying is retried. Files that cannot be copied at the end stay on this
    machine, which is reported; `has_sent_all` is then False.
    """

    def __init__(self, run: Run, lease: Lease | None, say: Callable[[str], None]) -> None:
        self._directory, self._lease, self._say = run.directory, lease, say
        self._metrics = run.metrics
        self._bucket = run.place if isinstance(run.place, Bucket) and lease else None
        self.has_sent_all = self._bucket is None
        # What is here now is in the bucket, too: it was fetched from there, or written to both.
        self._copied = self._files() if self._bucket else {}
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
            self._say(
                f"Some files in {self._directory} could not be copied to {self._bucket}: {error}"
            )
            copies.mark_unsent(self._directory)
            return
        self.has_sent_all = True
        copies.remove(self._directory)

    def catch_up(self) -> str | None:
        """Copies the files as they are now; returns an error message if that fails. Raises
        TakenOver if the lease on the run is lost, also for a run on a disk.
        """
        if self._lease:
            self._lease.confirm()
        try:
            if self._bucket:
                self.copy()
        except OSError as error:
            return f"the files of the run cannot be copied: {error}"
        return None

    def copy(self, *, between_saves: bool = False) -> None:
        """Copies the files that have changed; raises OSError if that fails now. Between saves it
        leaves out large metrics: those that a killed process adds after a save are dropped on
        resume, and if they were in the bucket, the whole file would have to be copied again.
        """
        assert self._bucket  # else there is nothing to mirror
        assert self._lease
        with self._lock:
            files, copied = self._files(), self._copied
            changed = [each for each in files if _stamp(files[each]) != _stamp(copied.get(each))]
            if changed:
                self._lease.renew()  # so that a run that was deleted or taken over gets no files
            for inside in changed:
                before, now = copied.get(inside), files[inside]
                file, there = self._directory / inside, self._bucket / str(inside)
                size_that_stays = before.st_size if before and _has_grown(before, now) else 0
                if between_saves and file == self._metrics and size_that_stays >= _LARGE_METRICS:
                    continue
                copied.pop(inside, None)  # if this copy fails, the next one is a whole copy
                if size_that_stays >= _LARGE:
                    there.extend(file)
                else:
                    there.store(file)
                copied[inside] = now

    def _files(self) -> dict[Path, os.stat_result]:
        """Returns the files to copy, by their paths in the run."""
        found = {}
        for file in sorted(self._directory.rglob("*")):
            inside = file.relative_to(self._directory)
            is_passing = atomic_files.is_unfinished(file) or not file.is_file()
            if not is_passing and inside.parts[0] != copies.WANDB:
                found[inside] = file.stat()
        return found

    def _copy_always(self) -> None:
        failing = False
        while not self._over.wait(_EVERY):
            try:
                self.copy(between_saves=True)
            except TakenOver:
                return  # the training loop reports it
            except OSError as error:
                if not failing:
                    self._say(f"Copying the run's files failed and will be retried: {error}")
                failing = True
            else:
                failing = False


def _stamp(file: os.stat_result | None) -> tuple[int, int] | None:
    return (file.st_size, file.st_mtime_ns) if file else None


def _has_grown(before: os.stat_result, now: os.stat_result) -> bool:
    """Whether the file is larger and still the same one, not a replacement."""
    return before.st_ino == now.st_ino and before.st_size < now.st_size
