"""Shows a game of a policy: `python -m launch.watch --run=RUN [--episode=N] [--html=FILE]
[--gif=FILE]`.

Game N of a seed is the one that `python -m launch.evaluate` plays.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import app, flags, logging

from launch.startup import plan_flag, policy_flags, starting

if TYPE_CHECKING:
    from hackmatrix.replay.record import Episode

PROGRAM = "launch.watch"

_EPISODE = flags.DEFINE_integer("episode", 0, "The number of the game.", lower_bound=0)
_SEED = flags.DEFINE_integer("seed", 0, "The seed of the games.", lower_bound=0)
_GREEDY = flags.DEFINE_bool("greedy", False, "Take the likeliest action instead of drawing one.")
_HTML = flags.DEFINE_string("html", None, "Write the game as a page to this file.")
_GIF = flags.DEFINE_string("gif", None, "Write the game as an animated GIF to this file.")


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    starting.stay_off_accelerators()
    starting.keep_compiled_programs()
    policy = policy_flags.load(PROGRAM)
    planner = plan_flag.planner(PROGRAM, policy)
    from hackmatrix.report import games

    if not policy.env.is_drawable:
        sys.exit(f"{PROGRAM}: games of {policy.env.name} cannot be drawn")
    with starting.waiting(f"{PROGRAM}: compiling the game and playing it"):
        episode = games.play(policy, _SEED.value, _EPISODE.value, _GREEDY.value, planner=planner)
    if _HTML.value:
        from hackmatrix.replay import html

        _write(_HTML, html.page(episode).encode(), episode)
    if _GIF.value:
        from hackmatrix.replay import animation

        _write(_GIF, animation.gif(episode), episode)
    if not _HTML.value and not _GIF.value:
        _show(episode)


def _write(flag: flags.FlagHolder[str | None], content: bytes, episode: Episode) -> None:
    file = Path(str(flag.value))
    try:
        file.write_bytes(content)
    except OSError as error:
        sys.exit(f"{PROGRAM}: {file}: {error.strerror}; choose another --{flag.name}")
    print(f"{file}: {len(episode.frames) - 1} turns, return {episode.total:.2f}")


def _show(episode: Episode) -> None:
    from hackmatrix.replay import terminal

    if sys.stdin.isatty() and sys.stdout.isatty():
        terminal.show(episode)
    else:
        terminal.print_all(episode, sys.stdout)


if __name__ == "__main__":
    app.run(main, flags_parser=policy_flags.parser(PROGRAM))
