"""The command line of a program: --help on one screen, and a mistake in one line."""

from __future__ import annotations

import io
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from absl import flags, logging

from hackmatrix.errors import UserError
from launch.startup import ending, starting

Parse = Callable[[list[str]], list[str]]

_HELP = {"--help", "-help", "--h", "-h", "-?"}
_OURS = ("launch.", "hackmatrix.")
_VALUES = {"int": "=N", "float": "=NUMBER", "bool": "", "string": "=TEXT"}
_WIDTH, _INDENT = 96, 26


def parser(program: str) -> Parse:
    """What `app.run(main, flags_parser=...)` needs, for a program that takes flags alone."""

    def parse(arguments: list[str]) -> list[str]:
        try:
            rest = flags.FLAGS(arguments)
        except (flags.Error, UserError) as error:
            sys.exit(f"{program}: {' '.join(str(error).split())}")
        if rest[1:]:
            sys.exit(f"{program}: {rest[1]!r} is not a flag; --help lists those that there are")
        return rest

    return with_help(program, parse)


def refuse_empty(*names: flags.FlagHolder[Any]) -> None:
    """Makes it a mistake to give one of these flags without a name: --run=$RUN, where RUN is not
    set, would be taken for no flag at all.
    """
    for flag in names:
        flags.register_validator(flag, lambda name: name is None or bool(name), "must not be empty")


def with_help(program: str, parse: Parse) -> Parse:
    """The same, but --help is answered with all flags of the program, and ends it; and from then on
    Ctrl-C ends it without a traceback, what the terminal has no signs for is no mistake, and JAX is
    of 32 bits.
    """

    def parse_or_help(arguments: list[str]) -> list[str]:
        ending.is_quiet(program)
        logging.set_verbosity(logging.WARNING)  # unless --verbosity says otherwise
        starting.compute_as_usual()
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="replace")
        if _HELP & {*arguments[1:]}:
            print(_help(program, arguments[0]))
            sys.exit(0)
        return parse(arguments)

    return parse_or_help


def _help(program: str, main: str) -> str:
    """What the module of the program says of itself, and then its flags; `main` is how absl calls
    the module that was started.
    """
    about = sys.modules.get(program, sys.modules["__main__"]).__doc__ or ""
    return "\n".join([about.strip(), "", *(_line(flag) for flag in _own(main))])


def _own(main: str) -> Iterator[flags.Flag]:
    """Those that our modules define, but not each setting that was given as one."""
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
