"""Lets an exported policy play over the headless protocol, without JAX on its side.

python -m launch.drive --policy=exported/policy.npz --games=10
python -m launch.drive --policy=exported/policy.npz --server="PROGRAM --headless-cli"
"""

from __future__ import annotations

import shlex
import sys

from absl import app, flags

from hackmatrix.errors import UserError
from hackmatrix.standalone import driving
from hackmatrix.standalone.policy import NumpyPolicy

PROGRAM = "launch.drive"

_POLICY = flags.DEFINE_string("policy", None, "policies/NAME, or a file that launch.export wrote.")
_GAMES = flags.DEFINE_integer("games", 1, "How many games to play.", lower_bound=1)
_SERVER = flags.DEFINE_string(
    "server", None, "The command of the game; launch.serve if none is given."
)


def main(_: list[str]) -> None:
    ours = [sys.executable, "-m", "launch.serve", "--headless-cli"]
    command = shlex.split(_SERVER.value) if _SERVER.value else ours
    try:
        policy = NumpyPolicy(str(_POLICY.value))
        with driving.GameProgram(command) as program:
            for number in range(_GAMES.value):
                played = driving.play(program, policy)
                print(f"game {number}: {_summary(played)}", flush=True)
    except (UserError, OSError, ValueError, KeyError) as error:
        sys.exit(f"{PROGRAM}: {' '.join(str(error).split())}")


def _summary(played: driving.Played) -> str:
    end = f"return {played.total:.2f}, stage {played.stage}, score {played.score}"
    return f"{end}, {len(played.actions)} actions"


def parse(arguments: list[str]) -> list[str]:
    try:
        rest = flags.FLAGS(arguments)
    except flags.Error as error:
        sys.exit(f"{PROGRAM}: {' '.join(str(error).split())}")
    if rest[1:] or not _POLICY.value:
        sys.exit(f"{PROGRAM}: say --policy=FILE, and nothing besides flags")
    return rest


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
