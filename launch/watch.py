"""Shows a game of a policy: `python -m launch.watch --run=RUN [--episode=N] [--html=FILE]`.

Game N of a seed is the one that `python -m launch.evaluate` plays.
"""

from __future__ import annotations

import sys
from pathlib import Path

from absl import app, flags, logging

from launch import policy_flags, starting

PROGRAM = "launch.watch"

_EPISODE = flags.DEFINE_integer("episode", 0, "The number of the game.", lower_bound=0)
_SEED = flags.DEFINE_integer("seed", 0, "Of the games' luck.", lower_bound=0)
_GREEDY = flags.DEFINE_bool("greedy", False, "Take the likeliest action instead of drawing one.")
_HTML = flags.DEFINE_string("html", None, "Write a page to this file instead.")


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    starting.stay_off_accelerators()
    starting.keep_compiled_programs()
    policy = policy_flags.load(PROGRAM)
    from hackmatrix.replay import html, terminal
    from hackmatrix.replay.record import Thought, record
    from hackmatrix.train.thinking import Thinking

    if policy.env.name != "hackmatrix":
        sys.exit(f"{PROGRAM}: only hackmatrix can be shown, not {policy.env.name}")
    mind = Thinking(policy, _SEED.value, _EPISODE.value, _GREEDY.value)
    title = f"{policy.source} at step {policy.step:,}, game {_EPISODE.value} of seed {_SEED.value}"
    with starting.waiting(f"{PROGRAM}: compiling the game and playing it"):
        episode = record(title, lambda *seen: Thought(*mind.think(*seen)), mind.luck)
    if _HTML.value:
        try:
            Path(_HTML.value).write_text(html.page(episode), encoding="utf-8")
        except OSError as error:
            sys.exit(f"{PROGRAM}: {_HTML.value}: {error.strerror}; say another --html")
        print(f"{_HTML.value}: {len(episode.frames) - 1} turns, return {episode.total:.2f}")
    elif sys.stdin.isatty() and sys.stdout.isatty():
        terminal.show(episode)
    else:
        terminal.print_all(episode, sys.stdout)


if __name__ == "__main__":
    app.run(main, flags_parser=policy_flags.parser(PROGRAM))
