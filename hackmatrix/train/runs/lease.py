"""A lease on a run: one process at a time trains it, also where several machines see it.

    RUN/owner/N.json    the N-th owner: who that is, and a count that it raises every few seconds

The owner of the highest number holds the run. To take it over, one makes the next number, which
only one of several can. That is done where the last owner has given it back, where its process is
gone from this machine, or where its count has stood still for a minute; no clocks are compared.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from hackmatrix.errors import UserError
from hackmatrix.machine import process_space
from hackmatrix.train.runs.places import Disk
from hackmatrix.train.runs.protocol import Place

_RENEWED_EVERY = 10.0  # seconds
_STALE_AFTER = 60.0
OWNER = "owner"  # a folder of every run
_GONE = (
    "is not there any more: it was moved or deleted while it was trained, and this process ends "
    "without saving; --resume goes on with what was moved"
)
# It goes on while the machine sleeps.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class TakenOver(UserError):
    """Another process trains this run now, or it is gone; this one has to leave it alone."""


@dataclass(frozen=True)
class Owner:
    """Who holds a run. `machine` is what only processes that see each other's ids share."""

    host: str
    machine: str
    process: int
    begun: str  # when the process began, as process ids come round again
    count: int = 0
    has_ended: bool = False

    @classmethod
    def this_process(cls) -> Owner:
        process = os.getpid()
        return cls(socket.gethostname(), process_space(), process, begun(process) or "")

    @property
    def is_gone(self) -> bool:
        """Whether it is certain that it renews nothing any more."""
        is_here = self.machine == process_space()
        return self.has_ended or (is_here and begun(self.process) != self.begun)

    def is_same(self, other: Owner) -> bool:
        return replace(self, count=0, has_ended=False) == replace(other, count=0, has_ended=False)

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"


class Lease:
    """Held from when it is taken until it is given back. A thread renews it meanwhile."""

    def __init__(self, run: Place, number: int, own: Owner) -> None:
        self._run, self._number, self._own = run, number, own
        self._renewed_at = time.clock_gettime(_CLOCK)
        self._lost: str | None = None  # in words
        self._lock = threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._renew_always, name="lease", daemon=True).start()

    def confirm(self, *, asks: bool = True) -> None:
        """TakenOver if another process has the run, or nobody. Quick, unless this one was suspended
        or cut off for so long that another may have taken it: then it asks, which takes half a
        minute where a bucket is away, or goes by what is known.
        """
        with suppress(OSError):  # then nothing can be written there either
            silent = time.clock_gettime(_CLOCK) - self._renewed_at
            if asks and (silent > _STALE_AFTER / 2 or self._is_lost_on_a_disk()):
                self._renew()
        if self._lost:
            raise TakenOver(f"{self._run} {self._lost}")

    def is_ours(self) -> bool:
        """Whether the run is certainly still held here."""
        try:
            return self._lost is None and self._fate() is None
        except OSError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    def give_back(self) -> None:
        """The next one need not wait."""
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
            self._lost = self._fate()
            if self._lost:
                return
            self._own = replace(self._own, count=self._own.count + 1)
            self._write(self._own)
            self._renewed_at = time.clock_gettime(_CLOCK)

    def _fate(self) -> str | None:
        """Why the run is not ours any more, in words. One that was deleted may have been begun anew
        under its name, and then has an owner of the same number.
        """
        last = max(_numbers(self._run), default=0)
        if not last:
            return _GONE
        owner = _owner(self._run, last)
        is_ours = last == self._number and (owner is None or owner.is_same(self._own))
        return None if is_ours else _taken_by(owner)

    def _is_lost_on_a_disk(self) -> bool:
        """There it costs nothing to look, before anything is written to what somebody has moved."""
        return isinstance(self._run, Disk) and self._fate() is not None

    def _write(self, owner: Owner) -> None:
        _file(self._run, self._number).write(json.dumps(asdict(owner)))


def take(run: Place, say: Callable[[str], None], stale_after: float = _STALE_AFTER) -> Lease:
    """The lease on the run; UserError if another process renews it."""
    own = Owner.this_process()
    while True:
        last = max(_numbers(run), default=0)
        holder = _owner(run, last) if last else None
        if last and not (holder and holder.is_gone):
            _wait_until_stale(run, last, holder, stale_after, say)
        if _file(run, last + 1).create(json.dumps(asdict(own))):
            if max(numbers := _numbers(run), default=0) > last + 1:
                _file(run, last + 1).remove()  # two others had the run meanwhile: one has it now
                continue
            for number in numbers:
                if number <= last:
                    _file(run, number).remove()
            return Lease(run, last + 1, own)


def _wait_until_stale(
    run: Place, number: int, holder: Owner | None, seconds: float, say: Callable[[str], None]
) -> None:
    """UserError as soon as there is a sign of life."""
    say(f"{holder or 'Another process'} had {run} last: waiting to see whether it still trains it")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(1.0, seconds / 10))
        if _numbers(run)[-1:] != [number] or _owner(run, number) != holder:
            now = _owner(run, max(_numbers(run), default=0)) or holder
            if now and now.has_ended:
                return
            raise UserError(
                f"{run} is being trained by {now or 'another process'}: stop that one first, or "
                "give this run another name by --config.run_name"
            )


def _taken_by(owner: Owner | None) -> str:
    return (
        f"was taken over by {owner or 'another process'} while this process stood still: it goes "
        "on there, and this one ends without saving"
    )


def _numbers(run: Place) -> list[int]:
    names = [name.removesuffix(".json") for name in (run / OWNER).names()]
    return sorted(int(name) for name in names if name.isdecimal())


def _file(run: Place, number: int) -> Place:
    return run / OWNER / f"{number}.json"


def _owner(run: Place, number: int) -> Owner | None:
    """None while it is being written."""
    try:
        return Owner(**json.loads(_file(run, number).read()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def begun(process: int) -> str | None:
    """When a process of this machine began, in some unit; None if there is none of that id, or only
    what is left of one that has ended until somebody asks how it did.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except FileNotFoundError:
        pass
    except OSError:
        return None
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return ""
    return None if Path("/proc/self").exists() else ""
