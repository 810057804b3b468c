"""The --config flag of programs, and errors of one line for wrong flags.

ml_collections reads the command line already where the flag is defined, so a mistake may come to
light there or when the flags are parsed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from hackmatrix.errors import UserError
from hackmatrix.train.config import faults

_NAME = "config"
_ROOT = Path(__file__).parents[3]
# What absl says to a value of the wrong kind, and what is to be given.
_WRONG_KINDS = {
    r"invalid literal for int\(\).*": "give a whole number, like 1_000_000",
    r"could not convert string to float.*": "give a number, like 0.5 or 1e-3",
    r"\('Non-boolean argument to boolean flag'.*": "give True or False",
}
_QUOTED_NAME = re.compile(r"['\"\\]*(\w+)['\"\\]*( Did you mean .*)?")


def define_config(program: str) -> flags.FlagHolder:
    """Defines --config=FILE and --config.NAME=VALUE; a name that is no setting is refused."""
    with _one_line(program):
        return config_flags.DEFINE_config_file(
            _NAME,
            str(_ours("configs/default.py")),
            "The configuration; --config.NAME=VALUE changes it. configs/default.py explains them.",
            lock_config=True,
        )


def parser(program: str) -> Callable[[list[str]], list[str]]:
    """What `app.run(main, flags_parser=...)` needs. A mistake ends the program with exit code 1."""

    def parse(arguments: list[str]) -> list[str]:
        with _one_line(program):
            rest = flags.FLAGS(arguments)
            flag = flags.FLAGS[_NAME]
            # That a file is missing shows when it is first used.
            faults.as_settings(flag.value, config_flags.get_config_filename(flag))
            return rest

    return parse


@contextmanager
def _one_line(program: str) -> Iterator[None]:
    try:
        yield
    except flags.Error as error:
        sys.exit(f"{program}: {_flag_mistake(str(error))}")
    except UserError as error:
        sys.exit(f"{program}: {error}")
    except (AttributeError, KeyError) as error:
        # Anything else of this kind is a mistake in the file, whose place the traceback tells.
        unknown = _QUOTED_NAME.fullmatch(_in_a_line(str(error)))
        if not unknown:
            raise
        sys.exit(f"{program}: {faults.unknown(unknown[1])}")
    except (OSError, SyntaxError, ValueError) as error:
        sys.exit(f"{program}: {_unreadable(str(error))}")


def _unreadable(why: str) -> str:
    why = _in_a_line(why)
    missing = re.search(r"No such file or directory: '([^']+)'", why)
    ours = _ours(missing[1]) if missing else Path()
    hint = f"; the trainer's is {ours}" if missing and ours != Path(missing[1]) else ""
    return f"--{_NAME} cannot be read: {why}{hint}"


def _ours(named: str) -> Path:
    """The file of that name, which lies with the trainer if it is not here."""
    here, there = Path(named), _ROOT / named
    return there if there.is_file() and not here.exists() else here


def _flag_mistake(text: str) -> str:
    if "Traceback" in text:  # of the file; its last line says what is wrong
        return _unreadable(text.strip().splitlines()[-1])
    for theirs, ours in _WRONG_KINDS.items():
        text = re.sub(theirs, ours, text)
    return _in_a_line(text)


def _in_a_line(text: str) -> str:
    text = " ".join(text.replace("\\n", " ").split())
    return re.sub(r".*\[Errno \d+\] ", "", text)
