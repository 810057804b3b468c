"""Files that a program is asked to write: whether that can be done shows before the work begins."""

from __future__ import annotations

import sys
from pathlib import Path

from absl import flags


def check(program: str, *named: flags.FlagHolder[str | None]) -> None:
    """Ends the program with one line where the file of a flag could not be written. What is there
    stays as it is.
    """
    for flag in named:
        if not flag.value:
            continue
        file = Path(flag.value)
        was_there = file.exists()
        try:
            with file.open("ab"):
                pass
            if not was_there:
                file.unlink()
        except OSError as error:
            _refuse(program, file, error, flag)


def write(program: str, file: Path, content: bytes, flag: flags.FlagHolder[str | None]) -> None:
    """Ends the program with one line where that cannot be done."""
    try:
        file.write_bytes(content)
    except OSError as error:
        _refuse(program, file, error, flag)


def _refuse(program: str, file: Path, error: OSError, flag: flags.FlagHolder[str | None]) -> None:
    sys.exit(f"{program}: {file}: {error.strerror}; choose another --{flag.name}")
