"""Plays games over the headless protocol with an exported policy; needs JAX only with --plan.

python -m launch.drive --policy=policies/winner --games=10
python -m launch.drive --policy=FILE.npz --server="PROGRAM --headless-cli" --plan=64
"""

from __future__ import annotations

import shlex
import sys

import numpy as np
from absl import app, flags

from hackmatrix.errors import UserError
from hackmatrix.networks import files
from hackmatrix.standalone import driving
from hackmatrix.standalone.policy import NumpyPolicy
from launch.startup import command_line, outputs, plan_flag, starting

PROGRAM = "launch.drive"

_POLICY = flags.DEFINE_string("policy", None, "policies/NAME, or a file that launch.export wrote.")
_GAMES = flags.DEFINE_integer("games", 1, "How many games to play.", lower_bound=1)
_SEED = flags.DEFINE_integer(
    "seed",
    None,
    "Sample actions with this seed, which also seeds launch.serve; without it play is greedy.",
    lower_bound=0,
)
_SERVER = flags.DEFINE_string(
    "server", None, "The command that starts the game; by default launch.serve."
)


def main(_: list[str]) -> None:
    command, draws = [sys.executable, "-m", "launch.serve", "--headless-cli"], None
    if _SEED.value is not None:
        command, draws = [*command, f"--seed={_SEED.value}"], np.random.default_rng(_SEED.value)
    try:
        if _SERVER.value is not None:
            command = _words(_SERVER.value)
        named = str(_POLICY.value)
        driving.check_plays(files.read(named)[1])
        what = f"playing {_GAMES.value:,} {'game' if _GAMES.value == 1 else 'games'}"
        if plan := plan_flag.plan():
            decide = _looking_ahead(named, plan)
            what = f"compiling and {what}"
        else:
            decide = driving.at_once(NumpyPolicy(named), draws)
        with starting.waiting(f"{PROGRAM}: {what}"), driving.GameProgram(command) as program:
            played: list[driving.Played] = []
            for number in range(_GAMES.value):
                played.append(driving.play(program, decide))
                with outputs.printing(PROGRAM):
                    print(f"game {number}: {played[-1].summary}")
        if len(played) > 1:
            with outputs.printing(PROGRAM):
                print(f"{len(played):,} games, 95% intervals", *driving.table(played), sep="\n")
    except BrokenPipeError:  # an OSError that startup/ending.py handles
        raise
    except (UserError, OSError) as error:
        sys.exit(f"{PROGRAM}: {' '.join(str(error).split())}")


def _looking_ahead(policy: str, plan: int) -> driving.Decide:
    starting.stay_off_accelerators()
    starting.keep_compiled_programs()
    with starting.loading(PROGRAM, "JAX and the policy"):
        from hackmatrix.api.agent import Agent
        from hackmatrix.api.driving import looking_ahead
        from hackmatrix.train.policies.policy import of_file

        starting.need_devices()
        return looking_ahead(Agent(of_file(policy)), plan, _SEED.value or 0)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"--server={command} is not a command: {error}") from None
    if not words:
        raise UserError("--server= is empty: give a command")
    return words


def parse(arguments: list[str]) -> list[str]:
    rest = command_line.parser(PROGRAM)(arguments)
    if not _POLICY.value:
        sys.exit(f"{PROGRAM}: give --policy=policies/winner, or a file that launch.export wrote")
    return rest


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
