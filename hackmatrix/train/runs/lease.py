"""A lease on a run: only one process at a time trains it, even if several machines see it.

    RUN/owner/N.json    the N-th owner: its process, and a count that it raises every ten seconds

The owner with the highest number holds the run. A process takes the run over by creating the next
number, which only one process can. It does so if the last owner has given the run back, if that
process is gone from this machine, or if its count has not changed for a minute; clocks of different
machines are never compared.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Self

from hackmatrix.errors import UserError
from hackmatrix.machine import process_space
from hackmatrix.train.runs.places import Disk
from hackmatrix.train.runs.protocol import Place
from hackmatrix.whole_files import parsed

_RENEWED_EVERY = 10.0  # seconds
_STALE_AFTER = 60.0
_MOST_PROCESSES = 2**31  # Linux has far fewer
OWNER = "owner"  # a folder of every run
_GONE = (
    "no longer exists: it was moved or deleted during training, and this process ends without "
    "saving; if it was moved, resume it from its new path"
)
# This clock also runs while the machine sleeps.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class TakenOver(UserError):
    """Another process trains this run now, or the run is gone; this process must not write it."""


@dataclass(frozen=True)
class Owner:
    """The process that holds a run. `machine` is equal for processes that see each other's ids."""

    host: str
    machine: str
    process: int
    begun: str  # when the process began, as process ids are reused
    count: int = 0
    has_ended: bool = False

    @classmethod
    def this_process(cls) -> Owner:
        process = os.getpid()
        return cls(socket.gethostname(), process_space(), process, process_started(process) or "")

    @property
    def is_gone(self) -> bool:
        """Whether this owner certainly no longer renews its lease."""
        is_here = self.machine == process_space()
        return self.has_ended or (is_here and process_started(self.process) not in ("", self.begun))

    def is_same(self, other: Owner) -> bool:
        return replace(self, count=0, has_ended=False) == replace(other, count=0, has_ended=False)

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"


class Lease:
    """The lease that this process holds until it gives it back. A thread renews it meanwhile."""

    def __init__(self, run: Place, number: int, own: Owner) -> None:
        self._run, self._number, self._own = run, number, own
        self._renewed_at = time.clock_gettime(_CLOCK)
        self._lost: str | None = None  # why the lease is lost, for an error message
        self._lock = threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._renew_always, name="lease", daemon=True).start()

    def confirm(self, *, renew_if_stale: bool = True) -> None:
        """Raises TakenOver if another process holds the run, or if the run is gone. Usually fast:
        only if this process was suspended or offline for so long that another may have taken the
        run, it renews the lease, which takes half a minute if the bucket is unavailable. Without
        `renew_if_stale` it relies on what the thread has found.
        """
        with suppress(OSError):  # if this fails, writing to the run fails, too
            silent = time.clock_gettime(_CLOCK) - self._renewed_at
            if renew_if_stale and (silent > _STALE_AFTER / 2 or self._is_lost_on_a_disk()):
                self._renew()
        if self._lost:
            raise TakenOver(f"{self._run} {self._lost}")

    def renew(self) -> None:
        """Renews the lease now, which takes half a minute if the bucket is unavailable; then raises
        OSError. Raises TakenOver as `confirm` does.
        """
        self._renew()
        self.confirm(renew_if_stale=False)

    def is_ours(self) -> bool:
        """Whether this process certainly still holds the run."""
        try:
            return self._lost is None and self._why_lost() is None
        except OSError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Ends the lease, so that the next owner need not wait."""
        self._over.set()
        with self._lock, suppress(OSError):
            if self.is_ours():
                self._write(replace(self._own, has_ended=True))

    def _renew_always(self) -> None:
        while not self._over.wait(_RENEWED_EVERY):
            with suppress(OSError):
                self._renew()

    def _renew(self) -> None:
        with self._lock:
            if self._over.is_set() or self._lost:
                return
            self._lost = self._why_lost()
            if self._lost:
                return
            self._own = replace(self._own, count=self._own.count + 1)
            self._write(self._own)
            self._renewed_at = time.clock_gettime(_CLOCK)

    def _why_lost(self) -> str | None:
        """Returns why this process no longer holds the run, or None if it does. If the run was
        deleted and another begun under its name, that one may have an owner of the same number.
        """
        last = max(_numbers(self._run), default=0)
        if not last:
            return _GONE
        owner = _owner(self._run, last)
        is_ours = last == self._number and (owner is None or owner.is_same(self._own))
        return None if is_ours else _taken_by(owner)

    def _is_lost_on_a_disk(self) -> bool:
        """Checks at once for a run on a disk, where that is cheap, so that nothing is written to a
        run that was moved.
        """
        return isinstance(self._run, Disk) and self._why_lost() is not None

    def _write(self, owner: Owner) -> None:
        _file(self._run, self._number).write(json.dumps(asdict(owner)))


def take(run: Place, say: Callable[[str], None], stale_after: float = _STALE_AFTER) -> Lease:
    """Takes the lease on the run; raises UserError if another process still renews it."""
    own = Owner.this_process()
    while True:
        last = max(_numbers(run), default=0)
        holder = _owner(run, last) if last else None
        if last and not (holder and holder.is_gone):
            _wait_until_stale(run, last, holder, stale_after, say)
        # If the answer of a bucket gets lost, the retry finds our own file.
        if _file(run, last + 1).create(json.dumps(asdict(own))) or _owner(run, last + 1) == own:
            if max(numbers := _numbers(run), default=0) > last + 1:
                _file(run, last + 1).remove()  # others were faster, and one holds a later number
                continue
            for number in numbers:
                if number <= last:
                    _file(run, number).remove()
            return Lease(run, last + 1, own)


def _wait_until_stale(
    run: Place, number: int, holder: Owner | None, seconds: float, say: Callable[[str], None]
) -> None:
    """Waits for `seconds`; raises UserError as soon as the holder shows a sign of life."""
    say(f"{holder or 'Another process'} was the last to train {run}: waiting to see if it is alive")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(1.0, seconds / 10))
        if _numbers(run)[-1:] != [number] or _owner(run, number) != holder:
            now = _owner(run, max(_numbers(run), default=0)) or holder
            if now and now.has_ended:
                return
            raise UserError(
                f"{run} is being trained by {now or 'another process'}: stop that process "
                "first, or choose another --config.run_name"
            )


def _taken_by(owner: Owner | None) -> str:
    return (
        f"was taken over by {owner or 'another process'} while this process was suspended or "
        "offline; this process ends without saving"
    )


def _numbers(run: Place) -> list[int]:
    names = [name.removesuffix(".json") for name in (run / OWNER).names()]
    return sorted(int(name) for name in names if name.isdecimal())


def _file(run: Place, number: int) -> Place:
    return run / OWNER / f"{number}.json"


def _owner(run: Place, number: int) -> Owner | None:
    """Returns the owner with this number; None while its file is being written, or if damaged."""
    try:
        owner = Owner(**parsed(_file(run, number).read(), dict))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    kinds = [type(each) for each in astuple(owner)]
    is_sound = kinds == [str, str, int, str, int, bool] and 0 < owner.process < _MOST_PROCESSES
    return owner if is_sound else None


def process_started(process: int) -> str | None:
    """Returns when a process of this machine began, in clock ticks since boot, or "" if that is
    unknown; None if there is no such process, or only a zombie.
    """
    try:
        told = Path(f"/proc/{process}/stat").read_text(errors="replace")
        fields = told.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except ProcessLookupError:  # it ended meanwhile
        return None
    except OSError:  # there is no /proc, or it hides processes of other users
        pass
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):  # the latter if no process has such a number
        return None
    except OSError:  # it is another user's
        pass
    return ""
