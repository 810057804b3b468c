"""Serves the game over the headless protocol: `python -m launch.serve --headless-cli`.

It reads commands from standard input and answers on standard output, with one JSON object per line;
all other output goes to standard error. With --run or --policy, clients may ask for that policy's
advice: {"action": "getAdvice"}.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import BinaryIO

from absl import app, flags

from launch.startup import outputs, plan_flag, policy_flags, starting

PROGRAM = "launch.serve"

_HEADLESS = flags.DEFINE_bool("headless-cli", False, "Use the headless protocol (required).")
_SEED = flags.DEFINE_integer(
    "seed", None, "The seed of the games; without it they are random.", lower_bound=0
)
_INFO = flags.DEFINE_bool("info", False, "Log to standard error when it starts and ends.")
_DEBUG = flags.DEFINE_bool("debug", False, "Log each command and its answer to standard error.")


def main(_: list[str]) -> None:
    if not _HEADLESS.value:
        sys.exit(f"{PROGRAM}: use --headless-cli")
    starting.need_standard_streams(PROGRAM)
    level = logging.DEBUG if _DEBUG.value else logging.INFO if _INFO.value else logging.WARNING
    logging.getLogger("hackmatrix").setLevel(level)
    starting.stay_off_accelerators()
    starting.keep_compiled_programs()
    answers = _standard_output()
    choose = policy_flags.adviser(PROGRAM, plan_flag.plan())
    loading = starting.loading(PROGRAM, "JAX and the game")
    with starting.one_line_errors(PROGRAM), loading:
        starting.need_devices()
        from hackmatrix.envs import headless
    with starting.waiting(f"{PROGRAM}: compiling the game, or loading it from the cache"):
        session = headless.Session(_SEED.value, choose)
        session.warm_up()
    # It also ends when the client has gone, or on Ctrl-C.
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt), outputs.printing(PROGRAM):
        headless.converse(session, sys.stdin.buffer, answers)


def _standard_output() -> BinaryIO:
    """Reserves standard output for answers: what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def run() -> None:
    app.run(main, flags_parser=policy_flags.parser(PROGRAM))


if __name__ == "__main__":
    run()
