"""Lets a person play the game: `python -m launch.play [--run=RUN]`.

With --run or --policy, that policy advises the player. In a terminal, arrow keys move and words
take effect as they are typed; elsewhere it reads one line per turn: an action, or save FILE,
load FILE, new, help, quit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator

from absl import app, flags

from hackmatrix import streams
from launch.startup import outputs, plan_flag, policy_flags, starting

PROGRAM = "launch.play"
_LINES = 34  # of a turn when the board has rules between its rows

_SEED = flags.DEFINE_integer(
    "seed", None, "The seed of the games; without it they are random.", lower_bound=0
)


def main(_: list[str]) -> None:
    starting.need_standard_streams(PROGRAM)
    starting.stay_off_accelerators()
    starting.keep_compiled_programs()
    choose = policy_flags.adviser(PROGRAM, plan_flag.plan())
    loading = starting.loading(PROGRAM, "JAX and the game")
    with starting.one_line_errors(PROGRAM), loading:
        starting.need_devices()
        from hackmatrix.replay.playing import Playing
    with starting.waiting(f"{PROGRAM}: compiling the game, or loading it from the cache"):
        colour = streams.has_colours(sys.stdout)
        playing = Playing(_SEED.value, _say, choose, colour, _is_low)
        playing.warm_up()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError), outputs.printing(PROGRAM):
        if sys.stdin.isatty() and sys.stdout.isatty():
            from hackmatrix.replay import keyboard

            with keyboard.keys_at_once():
                playing.converse(keyboard.commands(keyboard.key, _show, playing.at_once))
        else:
            playing.converse(_lines())


def _lines() -> Iterator[str]:
    while True:
        _show("> ")
        line = os.fsdecode(sys.stdin.buffer.readline())  # file names may be any bytes
        if not line:
            return
        yield line


def _is_low() -> bool:
    return sys.stdout.isatty() and shutil.get_terminal_size().lines < _LINES


def _show(text: str) -> None:
    print(text, end="", flush=True)


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    app.run(main, flags_parser=policy_flags.parser(PROGRAM))
