"""Says whether training can start here: `python -m launch.doctor`. Exit code 1 means it cannot.

On all hosts of a TPU slice at once, or with --coordinator, --num_processes and --process_id, the
processes are examined together.
"""

from __future__ import annotations

import sys
from pathlib import Path

from absl import app, flags, logging

from hackmatrix import streams
from hackmatrix.exit_codes import DONE, FAILED
from launch.startup import command_line, process_flags, starting

PROGRAM = "launch.doctor"
_CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
_SECONDS = 30  # of silence, or of waiting for the others

_WORKDIR = flags.DEFINE_string("workdir", "runs", "Where run directories are made, or gs://...")

command_line.refuse_empty(_WORKDIR)


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    starting.keep_compiled_programs(_WORKDIR.value)
    # Only now: it imports JAX, which reads where to keep compiled programs.
    try:
        with starting.loading(PROGRAM, "JAX"):
            from hackmatrix.parallel import startup
            from hackmatrix.train.guards import doctor
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("hackmatrix"):
            raise
        sys.exit(f"{PROGRAM}: {error.name} is missing: pip install -e . -c {_CONSTRAINTS.name}")

    try:
        process_flags.meet(PROGRAM, heartbeat_seconds=_SECONDS, join_seconds=_SECONDS)
    except startup.StartError as error:
        starting.say(f"{PROGRAM}: {error}")
        startup.exit_together(FAILED)
    findings = []
    for finding in doctor.examine(_CONSTRAINTS, _WORKDIR.value):
        findings.append(finding)
        streams.say(doctor.line(finding))
    for finding in doctor.bad_elsewhere(findings):
        findings.append(finding)
        streams.say(doctor.line(finding))
    startup.exit_together(DONE if all(finding.is_good for finding in findings) else FAILED)


if __name__ == "__main__":
    app.run(main, flags_parser=command_line.parser(PROGRAM))
