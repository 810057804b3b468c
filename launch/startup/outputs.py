"""What a program is asked to write: whether a file can be written shows before the work begins."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from absl import flags

from hackmatrix import streams
from hackmatrix.train.runs.places import on_disk

flags.disclaim_key_flags()  # they are the program's, which --help goes by


class _Paths(flags.ArgumentParser[Path]):
    def parse(self, argument: str) -> Path:
        if not argument:
            raise ValueError("must not be empty")
        return on_disk(argument)

    def flag_type(self) -> str:
        return "string"


def define(name: str, about: str) -> flags.FlagHolder[Path | None]:
    """Defines a flag that names what to write; a bucket is refused."""
    return flags.DEFINE(_Paths(), name, None, about)


def check(program: str, *named: flags.FlagHolder[Path | None]) -> None:
    """Ends the program with one line where the file of a flag could not be written, or is another
    flag's. What is there stays as it is.
    """
    flag_of: dict[Path, str] = {}
    for flag in named:
        if not (file := flag.value):
            continue
        there = Path(os.path.realpath(file))  # where a link leads; a pipe's leads nowhere
        if (other := flag_of.setdefault(there, flag.name)) != flag.name:
            sys.exit(f"{program}: {there}: --{other} names it, too; choose another --{flag.name}")
        try:
            _try_to_write(file, there)
        except OSError as error:
            _refuse(program, file, error, flag)


def _try_to_write(file: Path, there: Path) -> None:
    """But not to a pipe or a device, which would notice."""
    was_there = file.exists()
    if was_there and not file.is_file() and not file.is_dir():
        return
    with file.open("ab"):
        pass
    if not was_there:
        there.unlink()


def write(program: str, file: Path, content: bytes, flag: flags.FlagHolder[Path | None]) -> None:
    """Ends the program with one line where that cannot be done."""
    try:
        file.write_bytes(content)
    except OSError as error:
        _refuse(program, file, error, flag)


def is_standard_output(file: Path) -> bool:
    """Whether it names that, as /dev/stdout does, so that nothing else may be printed."""
    return bool(sys.stdout) and os.path.samestat(file.stat(), os.fstat(sys.stdout.fileno()))


@contextlib.contextmanager
def printing(program: str) -> Iterator[None]:
    """Ends the program with one line where what is printed inside cannot be written. That nobody
    reads it any more is left to others.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        streams.flush()  # so that it is not tried again
        sys.exit(f"{program}: cannot write to standard output: {error.strerror}")


def _refuse(program: str, file: Path, error: OSError, flag: flags.FlagHolder[Path | None]) -> None:
    sys.exit(f"{program}: {file}: {error.strerror}; choose another --{flag.name}")
