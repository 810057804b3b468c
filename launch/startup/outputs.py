"""Files that a program is asked to write: whether that can be done shows before the work begins."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from absl import flags

from hackmatrix.train.runs.places import on_disk

flags.disclaim_key_flags()  # they are the program's, which --help goes by


class _Paths(flags.ArgumentParser[Path]):
    def parse(self, argument: str) -> Path:
        if not argument:
            raise ValueError("it names nothing")
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
        if not flag.value:
            continue
        file = Path(os.path.realpath(flag.value))  # where a link leads
        if (other := flag_of.setdefault(file, flag.name)) != flag.name:
            sys.exit(f"{program}: {file}: --{other} names it, too; choose another --{flag.name}")
        was_there = os.path.lexists(file)
        try:
            with file.open("ab"):
                pass
            if not was_there:
                file.unlink()
        except OSError as error:
            _refuse(program, file, error, flag)


def write(program: str, file: Path, content: bytes, flag: flags.FlagHolder[Path | None]) -> None:
    """Ends the program with one line where that cannot be done."""
    try:
        file.write_bytes(content)
    except OSError as error:
        _refuse(program, file, error, flag)


def _refuse(program: str, file: Path, error: OSError, flag: flags.FlagHolder[Path | None]) -> None:
    sys.exit(f"{program}: {file}: {error.strerror}; choose another --{flag.name}")
