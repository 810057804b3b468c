"""The start of a program: what it waits for is said, compiled programs are kept, devices chosen."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager

from hackmatrix import cache, machine
from hackmatrix.errors import UserError
from hackmatrix.train import waiting as signs
from hackmatrix.train.guards.installed import INSTALL
from hackmatrix.train.runs.protocol import Unavailable
from launch.startup import ending


def waiting(what: str) -> AbstractContextManager[signs.Note]:
    """Says on standard error what is being waited for, and for how long already."""
    return signs.waiting(what, say_aside)


@contextlib.contextmanager
def loading(program: str, what: str) -> Iterator[None]:
    """Says that this is loaded. It stays, so it is not looked through for garbage, now or later.
    Ctrl-C ends the program at once, which an import of JAX would not survive in another way. Where
    it cannot be loaded as it is installed, the program ends with a line that says so.
    """
    gc.disable()
    try:
        with waiting(f"{program}: loading {what}"), ending.at_once(program):
            yield
    except Exception as error:
        if why := _wrong_here(error):
            sys.exit(f"{program}: {why}")
        raise
    finally:
        gc.freeze()
        gc.enable()


def _wrong_here(error: Exception) -> str | None:
    """What is wrong with this machine, where the error is not a mistake of ours."""
    if isinstance(error, ImportError) and (error.name or "").startswith("hackmatrix"):
        return None
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{error.name} is missing: {INSTALL}"
    may_be_of_jax = isinstance(error, ImportError | RuntimeError | ValueError | OSError)
    if "jax" in sys.modules or not may_be_of_jax:
        return None
    *_, why = [type(error).__name__, *str(error).splitlines()]
    told = f"JAX cannot be loaded: {why.rstrip('.')}"
    # Of a wrong variable it says which one, and no installation mends that.
    return told if isinstance(error, ValueError) else f"{told}: {INSTALL}"


@contextlib.contextmanager
def one_line_errors(program: str) -> Iterator[None]:
    """Ends the program with exit code 1 where a user's mistake, or a bucket that is away, ends the
    work inside, and says what is wrong, without a traceback.
    """
    try:
        yield
    except (UserError, Unavailable) as error:
        sys.exit("\n".join(f"{program}: {line}" for line in str(error).splitlines()))


def say_aside(line: str) -> None:
    """On standard error: standard output is for what the program was asked for."""
    with contextlib.suppress(OSError):  # nobody may be listening
        print(line, file=sys.stderr, flush=True)


def need_standard_streams(program: str) -> None:
    """Ends the program with one line where nothing could be said to it, or by it."""
    if sys.stdin is None or sys.stdout is None:
        sys.exit(
            f"{program}: commands come on standard input and answers go to standard output, "
            "but one of them is closed"
        )


def need_devices() -> None:
    """UserError where JAX finds none of the devices that it is told to use. To be called when JAX
    may look for them, after processes have met.
    """
    from hackmatrix.train.guards import doctor

    if not (found := doctor.devices()).is_good:
        raise UserError(found.text)


def keep_compiled_programs(workdir: str | None = None) -> None:
    """Lets JAX keep what it compiles from one start to the next; to be called before its import.

    What is compiled for accelerators is kept in the `workdir` of runs if one is given: JAX has only
    the first process write, and there the others find it too, and the next slice.
    """
    directory = None
    if workdir and (machine.has_tpu() or machine.has_gpu()):
        directory = f"{os.path.expanduser(workdir).rstrip('/')}/.compiled"
    cache.keep_compiled_programs(directory)


def compute_as_usual() -> None:
    """In 32 bits, with types and ranks that adapt to each other, whatever other programs of this
    user are told to do; to be called before JAX's import. The processes that a program starts are
    told the same.
    """
    os.environ["JAX_ENABLE_X64"] = "0"
    os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "standard"
    os.environ["JAX_NUMPY_RANK_PROMOTION"] = "allow"


def stay_off_accelerators() -> None:
    """Runs JAX on the CPU unless told otherwise; to be called before its import.

    A single board gains nothing from an accelerator, and would keep it from others.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


def leave_room_for_training(program: str) -> None:
    """For a program that may run beside a training, alone on one worker of a slice or on its GPU;
    to be called before JAX's import. A chip of a TPU has one owner, and a slice of several hosts
    begins to work only when all of them have asked it to.
    """
    if "JAX_PLATFORMS" not in os.environ and machine.has_libtpu() and machine.has_tpu():
        os.environ["JAX_PLATFORMS"] = "cpu"
        say_aside(f"{program}: on the CPU, as the TPU is for training; JAX_PLATFORMS=tpu takes it")
    elif machine.has_gpu():
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        say_aside(
            f"{program}: of a GPU's memory it takes what it needs, and leaves the rest to others"
        )
