"""Trains an agent on all devices there are: `python -m launch.train`."""

from __future__ import annotations

import sys
from pathlib import Path

from absl import app, flags, logging
from ml_collections import config_flags

from configs import default
from hackmatrix.train.command_line import define_config, parser
from hackmatrix.train.config import ConfigError
from hackmatrix.train.run import RunError
from launch.starting import keep_compiled_programs

PROGRAM = "launch.train"

_CONFIG = define_config(PROGRAM)
_WORKDIR = flags.DEFINE_string("workdir", "runs", "Where run directories are made.")
_RESUME = flags.DEFINE_string("resume", None, "The run to go on with: its name, or auto.")


def main(arguments: list[str]) -> None:
    if arguments[1:]:
        sys.exit(f"{PROGRAM}: {arguments[1]!r} is no flag; settings are --config.NAME=VALUE")
    logging.set_verbosity(logging.WARNING)
    keep_compiled_programs()
    # Only now: it imports JAX, which reads where to keep compiled programs, and takes a while.
    print("Starting JAX ...", flush=True)
    from hackmatrix.train import session
    from hackmatrix.train.checkpoints import CheckpointError
    from hackmatrix.train.progress import Broken

    raw = dict(_CONFIG.value)
    overrides = dict(config_flags.get_override_values(flags.FLAGS["config"]))
    if _RESUME.value:
        raw["resume"] = overrides["resume"] = _RESUME.value
    try:
        code = session.begin(raw, overrides, dict(default.get_config()), Path(_WORKDIR.value))
    except (ConfigError, RunError, CheckpointError, Broken) as error:
        sys.exit("\n".join(f"{PROGRAM}: {line}" for line in str(error).splitlines()))
    sys.exit(code)


if __name__ == "__main__":
    app.run(main, flags_parser=parser(PROGRAM))
