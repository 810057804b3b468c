"""The start of a program: what it waits for is said, compiled programs are kept, devices chosen."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from hackmatrix.errors import UserError

_SECONDS_BETWEEN_LINES = 5
# What there is where JAX might find more than a CPU: TPUs, and GPUs of several makers.
_ACCELERATORS = (
    "/dev/accel*", "/dev/vfio/*", "/dev/nvidia*", "/proc/driver/nvidia", "/dev/kfd", "/dev/dxg",
)  # fmt: skip


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Says on standard error what is being waited for, and for how long already."""
    done = threading.Event()
    start = time.monotonic()

    def say_so_far() -> None:
        while not done.wait(_SECONDS_BETWEEN_LINES):
            _say(f"{what}: {time.monotonic() - start:.0f} s so far")

    _say(f"{what} ...")
    thread = threading.Thread(target=say_so_far, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    _say(f"{what}: done in {time.monotonic() - start:.1f} s")


@contextlib.contextmanager
def one_line_errors(program: str) -> Iterator[None]:
    """Ends the program with exit code 1 where a user's mistake ends the work inside, and says what
    is wrong, without a traceback.
    """
    try:
        yield
    except UserError as error:
        sys.exit("\n".join(f"{program}: {line}" for line in str(error).splitlines()))


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody may be listening
        print(line, file=sys.stderr, flush=True)


def keep_compiled_programs() -> None:
    """Lets JAX keep what it compiles from one start to the next; to be called before its import."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache / "hackmatrix" / "jax"))


def stay_off_accelerators() -> None:
    """Runs JAX on the CPU unless told otherwise; to be called before its import.

    A single board gains nothing from an accelerator, and would keep it from others.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


def leave_missing_tpu() -> None:
    """Keeps an installed libtpu from complaining at length that there is no TPU, where JAX would
    come back to the CPU in the end; to be called before JAX's import.
    """
    if importlib.util.find_spec("libtpu") and not any(map(glob.glob, _ACCELERATORS)):
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
