"""Exports a policy for other programs: `python -m launch.export [--run=RUN] [--out=DIR]`.

The policy is the latest run's, unless --run or --policy names another.

policy.npz    plain arrays, described in hackmatrix/networks/files.py
policy.jax    an artifact of jax.export, described in hackmatrix/train/policies/artifact.py
"""

from __future__ import annotations

import sys

from absl import app

from launch.startup import outputs, policy_flags, starting

PROGRAM = "launch.export"

_OUT = outputs.define(
    "out",
    "The directory to write to; by default RUN/exported, with --best RUN/exported-best, or with "
    "--policy exported/NAME.",
)


def main(_: list[str]) -> None:
    starting.stay_off_accelerators()
    agent = policy_flags.load(PROGRAM)
    # Only now: these import JAX, which is loaded by now.
    from hackmatrix import networks
    from hackmatrix.envs.hackmatrix_env import is_drawable

    try:
        folder = _OUT.value or policy_flags.place_for_exports()
        with starting.one_line_errors(PROGRAM):
            plain, compiled = agent.export(folder)
    except OSError as error:
        place = error.filename or folder  # a full disk gives no file name
        sys.exit(f"{PROGRAM}: {place}: {error.strerror}; choose another --out")
    network, env = agent.policy.network.spec.network, agent.policy.env
    with outputs.printing(PROGRAM):
        print(f"{agent.title}: {plain} and {compiled}")
        if is_drawable(env) and not networks.numpy_address(network):
            print(f"{network} has no `in_numpy`: launch.drive can use {plain} only with --plan")


if __name__ == "__main__":
    app.run(main, flags_parser=policy_flags.parser(PROGRAM))
