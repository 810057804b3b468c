"""The --config flag of programs, and one-line errors for wrong flags.

ml_collections reads the command line as soon as the flag is defined, so a mistake may raise an
error there or when the flags are parsed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from absl import flags
from ml_collections import config_dict, config_flags

from hackmatrix import errors
from hackmatrix.errors import UserError
from hackmatrix.train.config import faults, reading
from hackmatrix.train.config.settings import Config, declared

_NAME = "config"
_SETTING = re.compile(rf"--?(no)?{_NAME}\.([^=]+)")


class _Files(flags.ArgumentParser[config_dict.ConfigDict]):
    """Reads a file as `hackmatrix.train` does, with defaults for the settings that it does not
    set, which ml_collections alone would leave out.
    """

    def parse(self, argument: str) -> config_dict.ConfigDict:
        return reading.read_whole(argument).lock()

    def flag_type(self) -> str:
        return "configuration"


class _OrNone(flags.ArgumentParser[Any]):
    """Reads the word None as no value, which takes back what a file sets."""

    def __init__(self, parser: flags.ArgumentParser[Any]) -> None:
        super().__init__()
        self._parser = parser

    def parse(self, argument: Any) -> Any:
        return None if argument == "None" else self._parser.parse(argument)

    def flag_type(self) -> str:
        return self._parser.flag_type()


_PARSERS: dict[type, flags.ArgumentParser[Any]] = {
    bool: flags.BooleanParser(),
    int: flags.IntegerParser(),
    float: flags.FloatParser(),
    str: flags.ArgumentParser(),
}


def define_config(program: str) -> flags.FlagHolder:
    """Defines the flags --config=FILE and --config.NAME=VALUE, and refuses unknown settings."""
    for kind, its_parser in _PARSERS.items():
        config_flags.register_flag_parser_for_type(kind, _OrNone(its_parser))
    with _one_line(program):
        _check_names(sys.argv[1:])
        holder = config_flags.DEFINE_config_file(
            _NAME,
            None,
            "A configuration file; --config.NAME=VALUE changes a setting. configs/default.py "
            "explains all settings.",
        )
        flags.FLAGS[_NAME].parser = _Files()
        flags.set_default(holder, str(reading.DEFAULT))
        return holder


def parser(program: str, *, takes_words: bool = False) -> Callable[[list[str]], list[str]]:
    """Returns a parser for `app.run(main, flags_parser=...)`. A mistake ends the program with exit
    code 1, as does an argument that is not a flag, unless the program takes words.
    """

    def parse(arguments: list[str]) -> list[str]:
        with _one_line(program):
            rest = list(flags.FLAGS(arguments))
        if rest[1:] and not takes_words:
            sys.exit(f"{program}: {rest[1]!r} is not a flag; settings are --config.NAME=VALUE")
        return rest

    return parse


def _check_names(arguments: Sequence[str]) -> None:
    """Raises UserError for names that ml_collections would read as a path into a setting or as an
    expression.
    """
    for argument in arguments:
        if given := _SETTING.match(argument):
            name = given[2]
            parts, value = name.split("."), argument[given.end() :]
            if len(parts) > 1:
                meant = next((each for each in reversed(parts) if each in declared(Config)), "NAME")
                raise UserError(
                    f"{argument}: settings are not nested: use --{_NAME}.{meant}{value}"
                )
            if not name.isidentifier():
                raise UserError(faults.unknown(name))


@contextmanager
def _one_line(program: str) -> Iterator[None]:
    try:
        yield
    except (flags.Error, ValueError) as error:  # the latter for --noNAME=VALUE
        sys.exit(f"{program}: {errors.of_flag(error)}")
    except UserError as error:
        sys.exit("\n".join(f"{program}: {line}" for line in str(error).splitlines()))
    except (AttributeError, KeyError) as error:
        if name := faults.unknown_name(error):
            sys.exit(f"{program}: {faults.unknown(name)}")
        raise
