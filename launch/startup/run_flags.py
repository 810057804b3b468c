"""The flags that name a run, and finding that run, or the latest if none is named."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from hackmatrix.train.runs.places import BUCKETS
from launch.startup import command_line, starting

if TYPE_CHECKING:
    from hackmatrix.train.runs.directory import Run

_RUN = flags.DEFINE_string("run", None, "The run: its name, its directory, or auto for the latest.")
_WORKDIR = flags.DEFINE_string(
    "workdir", "runs", "Where run directories are: a path, or gs://BUCKET/..."
)
_LATEST = "auto"

command_line.refuse_empty(_RUN, _WORKDIR)


def name() -> str | None:
    """Returns the value of --run, or None."""
    return _RUN.value


def is_latest() -> bool:
    """Whether --run is missing or auto, which mean the latest run."""
    return not _RUN.value or _RUN.value == _LATEST


def workdir() -> str:
    return _WORKDIR.value


def find(program: str, instead: str = "") -> Run:
    """Finds the run that is named, or the latest: that one is announced, and --run set to its name.
    Ends the program with one line if there is none; `instead` is an alternative for that line.
    """
    found = _find(program, name() or _LATEST)
    if found is None:
        sys.exit(
            f"{program}: there is no run in {workdir()} yet: use python -m launch.train{instead}"
        )
    if is_latest():
        starting.say_aside(f"Run {found.name}, the latest in {workdir()}")
        flags.FLAGS["run"].value = found.name
    return found


def find_each(program: str, names: Sequence[str]) -> list[Run]:
    """Finds the runs of these names; ends the program with one line if one does not exist."""
    return [run for each in names if (run := _find(program, each))]


def _find(program: str, which: str) -> Run | None:
    from hackmatrix.train.runs import directory

    with starting.one_line_errors(program):
        if not any(where.startswith(BUCKETS) for where in (workdir(), which)):
            return directory.find(workdir(), which)
        with starting.waiting(f"{program}: looking for the run"):
            return directory.find(workdir(), which)


def as_flags(more: str) -> str:
    """The flags that name the run, with `more` among them, for another command line."""
    where = "" if workdir() == "runs" else f" --workdir={shlex.quote(workdir())}"
    return f"--run={shlex.quote(str(name()))}{more}{where}"
