"""Output files of programs, checked to be writable before the work begins."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from absl import flags

from hackmatrix import streams
from hackmatrix.train.runs.places import on_disk

flags.disclaim_key_flags()  # those of `define` belong to the calling program


class _Paths(flags.ArgumentParser[Path]):
    def parse(self, argument: str) -> Path:
        if not argument:
            raise ValueError("must not be empty")
        return on_disk(argument)

    def flag_type(self) -> str:
        return "string"


def define(name: str, about: str) -> flags.FlagHolder[Path | None]:
    """Defines a flag that names an output file or directory; a place in a bucket is refused."""
    return flags.DEFINE(_Paths(), name, None, about)


def check(program: str, *named: flags.FlagHolder[Path | None]) -> None:
    """Ends the program with one line if the file of a flag cannot be written, or is that of another
    flag. Existing files are not changed.
    """
    flag_of: dict[Path, str] = {}
    for flag in named:
        if not (file := flag.value):
            continue
        check_file(program, file, flag)
        there = _target(file)
        if (other := flag_of.setdefault(there, flag.name)) != flag.name:
            sys.exit(
                f"{program}: --{other} and --{flag.name} name the same file, {there}; "
                f"choose another --{flag.name}"
            )


def check_file(program: str, file: Path, flag: flags.FlagHolder[Path | None]) -> None:
    """Ends the program with one line if this file, for which `flag` can name another, cannot be
    written.
    """
    try:
        _try_to_write(file, _target(file))
    except OSError as error:
        _refuse(program, file, error, flag)


def _target(file: Path) -> Path:
    return Path(os.path.realpath(file))  # follows links; a pipe's leads to no file


def _try_to_write(file: Path, there: Path) -> None:
    """Opens the file for writing, unless it is a pipe or a device, which would notice."""
    was_there = file.exists()
    if was_there and not file.is_file() and not file.is_dir():
        return
    with file.open("ab"):
        pass
    if not was_there:
        there.unlink()


def write(program: str, file: Path, content: bytes, flag: flags.FlagHolder[Path | None]) -> None:
    """Writes the file; ends the program with one line if that fails."""
    try:
        file.write_bytes(content)
    except OSError as error:
        _refuse(program, file, error, flag)


def is_standard_output(file: Path) -> bool:
    """Whether the file is standard output, as /dev/stdout is: nothing else may be printed then."""
    return bool(sys.stdout) and os.path.samestat(file.stat(), os.fstat(sys.stdout.fileno()))


@contextlib.contextmanager
def printing(program: str) -> Iterator[None]:
    """Ends the program with one line if what is printed inside cannot be written. A broken pipe is
    left to the caller.
    """
    try:
        yield
        if sys.stdout:  # None if it was closed from the start
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        streams.flush()  # drops it, or Python would try again at exit
        sys.exit(f"{program}: cannot write to standard output: {error.strerror}")


def _refuse(program: str, file: Path, error: OSError, flag: flags.FlagHolder[Path | None]) -> None:
    sys.exit(f"{program}: {file}: {error.strerror}; choose another --{flag.name}")
