"""Starts a program: reports what it waits for, caches compiled programs, chooses devices."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager

from hackmatrix import cache, machine
from hackmatrix.errors import UserError
from hackmatrix.train import waiting as signs
from hackmatrix.train.guards.installed import INSTALL
from hackmatrix.train.runs.protocol import Unavailable
from launch.startup import ending

_MODULE = "<module>"  # the name of a module's code


def waiting(what: str) -> AbstractContextManager[signs.Note]:
    """Reports on standard error what is being waited for, and for how long so far."""
    return signs.waiting(what, say_aside)


@contextlib.contextmanager
def loading(program: str, what: str) -> Iterator[None]:
    """Reports that this is being loaded. It stays in memory, so the garbage collector skips it, now
    and later. Ctrl-C ends the program at once: an import of JAX does not survive an exception. If
    the installation cannot be loaded, the program ends with a line that says why.
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
    """Returns what is wrong with this installation, or None if the error may be a bug of ours."""
    if isinstance(error, ImportError) and (error.name or "").startswith("hackmatrix"):
        return None
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{error.name} is missing: {INSTALL}"
    *_, why = [type(error).__name__, *str(error).splitlines()]
    why = f"cannot be loaded: {why.rstrip('.')}"
    if "jax" in sys.modules:
        library = _being_imported(error)
        return f"{library} {why}: {INSTALL}" if library else None
    if not isinstance(error, ImportError | RuntimeError | ValueError | OSError):
        return None
    # A ValueError names a wrong environment variable, which no installation mends.
    return f"JAX {why}" if isinstance(error, ValueError) else f"JAX {why}: {INSTALL}"


def _being_imported(error: Exception) -> str | None:
    """Returns the library whose modules were being executed when the error was raised, if any."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    modules = (frame.f_globals for frame in frames if frame.f_code.co_name == _MODULE)
    packages = (variables.get("__name__", "").partition(".")[0] for variables in modules)
    return next((each for each in packages if each not in ("hackmatrix", "launch")), None)


@contextlib.contextmanager
def one_line_errors(program: str) -> Iterator[None]:
    """Ends the program with exit code 1 and a message, without a traceback, if a user's mistake or
    an unavailable bucket ends the work inside.
    """
    try:
        yield
    except (UserError, Unavailable) as error:
        sys.exit("\n".join(f"{program}: {line}" for line in str(error).splitlines()))


def say_aside(line: str) -> None:
    """Prints a line on standard error: standard output is for the results of the program."""
    with contextlib.suppress(OSError):  # nobody may be listening
        print(line, file=sys.stderr, flush=True)


def need_standard_streams(program: str) -> None:
    """Ends the program with one line if standard input or standard output is closed."""
    if sys.stdin is None or sys.stdout is None:
        sys.exit(
            f"{program}: needs standard input for commands and standard output for answers, "
            "but one of them is closed"
        )


def need_devices() -> None:
    """Raises UserError if JAX finds none of the devices that it is told to use. To be called only
    after the processes have met, as JAX looks for devices.
    """
    from hackmatrix.train.guards import doctor

    if not (found := doctor.devices()).is_good:
        raise UserError(found.text)


def keep_compiled_programs(workdir: str | None = None) -> None:
    """Makes JAX cache what it compiles from one start to the next; to be called before its import.

    Programs for accelerators are cached in the `workdir` of runs if one is given: JAX has only the
    first process write, and there the others find them too, as does the next slice.
    """
    directory = None
    if workdir and (machine.has_tpu() or machine.has_gpu()):
        directory = f"{os.path.expanduser(workdir).rstrip('/')}/.compiled"
    cache.keep_compiled_programs(directory)


def compute_in_32_bits() -> None:
    """Makes JAX compute in 32 bits, with standard promotion of types and ranks, whatever the user's
    environment says; to be called before its import. Child processes inherit these settings.
    """
    os.environ["JAX_ENABLE_X64"] = "0"
    os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "standard"
    os.environ["JAX_NUMPY_RANK_PROMOTION"] = "allow"


def stay_off_accelerators() -> None:
    """Runs JAX on the CPU unless JAX_PLATFORMS is set; to be called before its import.

    A single board gains nothing from an accelerator, and would keep it from others.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


def leave_room_for_training(program: str) -> None:
    """Leaves the accelerator to training that may run beside this program, which may be alone on
    one worker of a slice, or on the GPU of the training; to be called before JAX's import. A TPU
    chip has one owner, and a slice of several hosts starts only when all of them have asked it to.
    """
    if "JAX_PLATFORMS" not in os.environ and machine.has_libtpu() and machine.has_tpu():
        os.environ["JAX_PLATFORMS"] = "cpu"
        say_aside(
            f"{program}: running on the CPU, to leave the TPU to training; "
            "set JAX_PLATFORMS=tpu to use it"
        )
    elif machine.has_gpu():
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        say_aside(f"{program}: allocating GPU memory only as needed, to leave the rest to training")
