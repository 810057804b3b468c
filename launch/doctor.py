"""Checks whether training can start here: `python -m launch.doctor`. Exit code 1 means it cannot.

Started on all hosts of a TPU slice, or with --coordinator, --num_processes and --process_id, it
checks all processes together.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from absl import app, flags

from hackmatrix import streams
from hackmatrix.errors import UserError
from hackmatrix.exit_codes import DONE, FAILED
from hackmatrix.train.guards import installed
from hackmatrix.train.guards.installed import Finding
from launch.startup import command_line, process_flags, starting

PROGRAM = "launch.doctor"
_CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
_SECONDS = 30  # heartbeat timeout, and how long to wait for the other processes

_WORKDIR = flags.DEFINE_string(
    "workdir", "runs", "Where run directories are created: a path, or gs://BUCKET/..."
)

command_line.refuse_empty(_WORKDIR)


def main(_: list[str]) -> None:
    starting.keep_compiled_programs(_WORKDIR.value)
    findings = []

    def tell(found: Iterable[Finding]) -> None:
        for finding in found:
            findings.append(finding)
            streams.say(installed.line(finding))

    tell(installed.examine(_CONSTRAINTS))
    # Imported only now: JAX may be what is broken, and reads its cache directory on import.
    with starting.loading(PROGRAM, "JAX"):
        from hackmatrix.parallel import startup
        from hackmatrix.train.guards import doctor

    try:
        process_flags.meet(PROGRAM, heartbeat_seconds=_SECONDS, join_seconds=_SECONDS)
    except UserError as error:
        starting.say_aside(f"{PROGRAM}: {error}")
        startup.exit_together(FAILED)
    tell(doctor.examine(_WORKDIR.value))
    tell(doctor.bad_elsewhere(findings))
    startup.exit_together(DONE if all(finding.is_good for finding in findings) else FAILED)


if __name__ == "__main__":
    app.run(main, flags_parser=command_line.parser(PROGRAM))
