"""Parses command lines: --help fits one screen, and a mistake is reported in one line."""

from __future__ import annotations

import io
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from absl import flags, logging

from hackmatrix import errors
from hackmatrix.errors import UserError
from launch.startup import ending, outputs, starting

Parse = Callable[[list[str]], list[str]]

_HELP = {"--help", "-help", "--h", "-h", "-?"}
_OURS = ("launch.", "hackmatrix.")
_VALUES = {"int": "=N", "float": "=NUMBER", "bool": "", "string": "=TEXT"}
_WIDTH, _INDENT = 96, 26
_RAISING = "strict", "surrogateescape"  # the latter in the C locale


def parser(program: str) -> Parse:
    """Returns a `flags_parser` for `app.run`, for a program that takes only flags."""

    def parse(arguments: list[str]) -> list[str]:
        try:
            rest = flags.FLAGS(arguments)
        except (flags.Error, ValueError, UserError) as error:  # ValueError: --noNAME=VALUE
            sys.exit(f"{program}: {errors.of_flag(error)}")
        if rest[1:]:
            sys.exit(f"{program}: {rest[1]!r} is not a flag; --help lists the flags")
        return rest

    return with_help(program, parse)


def refuse_empty(*names: flags.FlagHolder[Any]) -> None:
    """Makes an empty value of one of these flags an error: --run=$RUN, where RUN is not set, would
    otherwise be taken for no flag at all.
    """
    for flag in names:
        flags.register_validator(flag, lambda name: name is None or bool(name), "must not be empty")


def with_help(program: str, parse: Parse) -> Parse:
    """Returns the parser with --help, which prints all flags of the program and exits. It also sets
    up the process: Ctrl-C ends it without a traceback, characters that the terminal cannot encode
    are replaced, and JAX computes in 32 bits.
    """

    def parse_or_help(arguments: list[str]) -> list[str]:
        ending.end_quietly(program)
        logging.set_verbosity(logging.WARNING)  # unless --verbosity says otherwise
        starting.compute_in_32_bits()
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in _RAISING:
            sys.stdout.reconfigure(errors="replace")
        if _HELP & {*arguments[1:]}:
            with outputs.printing(program):
                print(_help(program, arguments[0]))
            sys.exit(0)
        return parse(arguments)

    return parse_or_help


def _help(program: str, main: str) -> str:
    """Returns the docstring of the program's module, then its flags; `main` is absl's name for the
    module that was started.
    """
    about = sys.modules.get(program, sys.modules["__main__"]).__doc__ or ""
    return "\n".join([about.strip(), "", *(_line(flag) for flag in _own(main))])


def _own(main: str) -> Iterator[flags.Flag]:
    """Yields the flags that our modules define, without each --config.NAME that was given."""
    for module, defined in flags.FLAGS.flags_by_module_dict().items():
        if module == main or module.startswith(_OURS):
            yield from (flag for flag in defined if "." not in flag.name)


def _line(flag: flags.Flag) -> str:
    usual = "" if flag.name == "config" else (flag.default_as_str or "").strip("'")
    about = flag.help.replace("|", ", ") if isinstance(flag, flags.EnumFlag) else flag.help
    said = about + (f" (default: {usual})" if usual not in ("", "false") else "")
    name = f"  --{flag.name}{_value(flag)}".ljust(_INDENT - 1) + " "
    return textwrap.fill(
        said, _WIDTH, initial_indent=name, subsequent_indent=" " * _INDENT, break_on_hyphens=False
    )


def _value(flag: flags.Flag) -> str:
    if isinstance(flag, flags.EnumFlag):
        return "=NAME"
    return _VALUES.get(flag.flag_type(), "=FILE" if flag.name == "config" else "=A,B,...")
