"""Plays the game over pipes: `python -m launch.serve --headless-cli`.

Commands are read from standard input and answered on standard output, a JSON object a line;
anything else that is to be said goes to standard error.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import BinaryIO

from absl import app, flags

from launch.startup import starting

_HEADLESS = flags.DEFINE_bool("headless-cli", False, "Speak the headless protocol.")
_SEED = flags.DEFINE_integer("seed", None, "Play the same games each time.", lower_bound=0)
_INFO = flags.DEFINE_bool("info", False, "Log to standard error when commands start and end.")
_DEBUG = flags.DEFINE_bool("debug", False, "Log to standard error each command and its answer.")


def main(arguments: list[str]) -> None:
    if arguments[1:] or not _HEADLESS.value:
        sys.exit("launch.serve: say --headless-cli, and nothing besides flags")
    level = logging.DEBUG if _DEBUG.value else logging.INFO if _INFO.value else logging.WARNING
    logging.getLogger("hackmatrix").setLevel(level)
    starting.stay_off_accelerators()
    starting.keep_compiled_programs()
    answers = _standard_output()
    with starting.waiting("launch.serve: loading JAX and the game"):
        from hackmatrix.envs import headless
    with starting.waiting("launch.serve: compiling the game, or loading it from the cache"):
        session = headless.Session(_SEED.value)
        session.warm_up()
    # It ends, too, when the client has gone or a person has had enough.
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        headless.converse(session, sys.stdin.buffer, answers)


def _standard_output() -> BinaryIO:
    """Standard output for answers alone: what any library prints goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def parse(arguments: list[str]) -> list[str]:
    try:
        return flags.FLAGS(arguments)
    except flags.Error as error:
        sys.exit(f"launch.serve: {' '.join(str(error).split())}")


def run() -> None:
    app.run(main, flags_parser=parse)


if __name__ == "__main__":
    run()
