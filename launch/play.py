"""Lets a person play: `python -m launch.play [--run=RUN]`, with a policy's advice if one is named.

A line a turn: an action, or save FILE, load FILE, new, help, quit.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from absl import app, flags, logging

from launch.startup import plan_flag, policy_flags, starting

PROGRAM = "launch.play"

_SEED = flags.DEFINE_integer("seed", None, "Play the same games each time.", lower_bound=0)


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    starting.stay_off_accelerators()
    starting.keep_compiled_programs()
    decide = None
    if policy_flags.is_given():
        policy = policy_flags.load(PROGRAM)
        from hackmatrix.replay.record import Decision
        from hackmatrix.train.policies.player import Player

        if policy.env.name != "hackmatrix":
            sys.exit(f"{PROGRAM}: a policy for {policy.env.name} has no advice for hackmatrix")
        player = Player(
            policy, seed=0, number=0, greedy=True, planner=plan_flag.planner(PROGRAM, policy)
        )
        decide = lambda *seen: Decision(*player.choose(*seen))  # noqa: E731

    with starting.waiting(f"{PROGRAM}: compiling the game, or loading it from the cache"):
        from hackmatrix.replay.playing import HELP, Playing

        playing = Playing(_SEED.value, _say, decide, colour=sys.stdout.isatty())
    _say(HELP)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        playing.converse(_lines())


def _lines() -> Iterator[str]:
    while True:
        print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        yield line


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    app.run(main, flags_parser=policy_flags.parser(PROGRAM, needed=False))
