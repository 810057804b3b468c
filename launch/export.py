"""Writes a policy for other programs: `python -m launch.export --run=RUN [--out=DIR]`.

policy.npz    plain arrays, described in hackmatrix/networks/files.py
policy.jax    an artifact of jax.export, described in hackmatrix/train/policies/artifact.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from absl import app, flags, logging

from launch.startup import policy_flags, starting

PROGRAM = "launch.export"

_OUT = flags.DEFINE_string("out", "exported", "The directory to write to.")


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    starting.stay_off_accelerators()
    policy = policy_flags.load(PROGRAM)
    from hackmatrix.networks import files
    from hackmatrix.train.policies.artifact import artifact
    from hackmatrix.train.policies.policy import about

    directory = Path(_OUT.value)
    plain, compiled = directory / "policy.npz", directory / "policy.jax"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        files.write(plain, policy.params, about(policy))
        compiled.write_bytes(artifact(policy))
    except OSError as error:
        sys.exit(f"{PROGRAM}: {error.filename}: {error.strerror}; choose another --out")
    print(f"{policy.title}: {plain} and {compiled}")


if __name__ == "__main__":
    app.run(main, flags_parser=policy_flags.parser(PROGRAM))
