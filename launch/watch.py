"""Shows a game of a policy: `python -m launch.watch [--run=RUN] [--html=FILE] [--gif=FILE]`.

The policy is the latest run's, unless --run or --policy names another. Game N of a seed is the
one that `python -m launch.evaluate` plays.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import app, flags

from hackmatrix import streams
from launch.startup import outputs, plan_flag, policy_flags, starting

if TYPE_CHECKING:
    from hackmatrix.replay.record import Episode
    from hackmatrix.report.games import Recorded

PROGRAM = "launch.watch"

_EPISODE = flags.DEFINE_integer("episode", 0, "The number of the game.", 0, 2**32 - 1)
_SEED = flags.DEFINE_integer("seed", 0, "The seed of the games.", 0, 2**32 - 1)
_GREEDY = flags.DEFINE_bool("greedy", False, "Take the likeliest action instead of sampling one.")
plan_flag.refuse_with(_GREEDY)
_HTML = outputs.define("html", "Write the game to this file, as an HTML page.")
_GIF = outputs.define("gif", "Write the game to this file, as an animated GIF.")


def main(_: list[str]) -> None:
    starting.stay_off_accelerators()
    starting.keep_compiled_programs()
    if not sys.stdout and not _HTML.value and not _GIF.value:
        sys.exit(f"{PROGRAM}: standard output is closed: use --html=FILE or --gif=FILE")
    outputs.check(PROGRAM, _HTML, _GIF)  # first: a game with --plan takes minutes
    agent = policy_flags.load(PROGRAM)
    greedy, plan = _GREEDY.value, plan_flag.plan()
    what = f"{PROGRAM}: compiling the game and playing it"
    with starting.one_line_errors(PROGRAM), starting.waiting(what):
        game = agent.watch(_EPISODE.value, seed=_SEED.value, greedy=greedy, plan=plan)
    if _HTML.value:
        _write(_HTML, game.page().encode(), game)
    if _GIF.value:
        with starting.waiting(f"{PROGRAM}: drawing the GIF"):
            film = game.film()
        _write(_GIF, film, game)
    if not _HTML.value and not _GIF.value:
        with outputs.printing(PROGRAM):
            _show(game.episode)


def _write(flag: flags.FlagHolder[Path | None], content: bytes, game: Recorded) -> None:
    file = flag.value
    assert file
    outputs.write(PROGRAM, file, content, flag)
    tell = starting.say_aside if outputs.is_standard_output(file) else print
    with outputs.printing(PROGRAM):
        tell(f"{file}: {game.turns} turns, return {game.total:.2f}")


def _show(episode: Episode) -> None:
    from hackmatrix.replay import terminal

    if sys.stdin and sys.stdin.isatty() and sys.stdout.isatty():
        terminal.show(episode, streams.has_colours(sys.stdout))
    else:
        terminal.print_all(episode, sys.stdout)


if __name__ == "__main__":
    app.run(main, flags_parser=policy_flags.parser(PROGRAM))
