"""Writes a page about a run: `python -m launch.report [--run=RUN | --runs=A,B,...] [--out=FILE]`.

The HTML page has its curves, its evaluation, its configuration and a game, and needs no network.
The run is the latest, unless --run names another; it may still be training.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import app, flags

from hackmatrix.errors import UserError
from launch.startup import command_line, ending, outputs, run_flags, starting

if TYPE_CHECKING:
    from hackmatrix.report.curves import Curves
    from hackmatrix.train.runs.directory import Run

PROGRAM = "launch.report"

_RUNS = flags.DEFINE_list("runs", None, "Compare these runs on one page instead.")
_OUT = outputs.define(
    "out", "The file to write; by default report.html of the run, or of --workdir for --runs."
)

command_line.refuse_empty(_RUNS)


def main(_: list[str]) -> None:
    ending.exit_when_terminated()
    starting.stay_off_accelerators()
    starting.keep_compiled_programs()
    if _RUNS.value:
        found = run_flags.find_each(PROGRAM, _RUNS.value)
        _compare(list({str(run.place): run for run in found}.values()))
        return
    run = run_flags.find(PROGRAM)
    file = _file(run.bucket or run.directory)
    with starting.one_line_errors(PROGRAM):
        curves = _curves(run)
    from hackmatrix.report import page

    with starting.one_line_errors(PROGRAM):
        replay, why_none = _replay(run)
        html = page.page(run, curves, replay, why_none)
    game = "with a game" if replay else "without a game"
    _write(file, html, f"up to step {curves.steps[-1]:,}, {game}")


def _compare(runs: list[Run]) -> None:
    file = _file(run_flags.workdir())
    found: list[tuple[Run, Curves]] = []
    with starting.one_line_errors(PROGRAM):
        for run in runs:
            try:
                found.append((run, _curves(run, len(runs))))
            except UserError as error:
                starting.say_aside(f"{PROGRAM}: leaving out {run.place}: {error}")
    if not found:
        sys.exit(f"{PROGRAM}: none of these runs can be shown")
    from hackmatrix.report.comparison import ReportedRun, comparison, names, one_environment

    called = names([run for run, _ in found])
    with starting.one_line_errors(PROGRAM):
        one_environment([run for run, _ in found])  # first: the games take a while
        page = comparison(
            [
                ReportedRun(run, name, curves, *_replay(run))
                for (run, curves), name in zip(found, called, strict=True)
            ]
        )
    _write(file, page, ", ".join(called))


def _curves(run: Run, runs: int = 1) -> Curves:
    """Reads the curves of a run, for a page of so many runs."""
    with starting.waiting(f"{PROGRAM}: reading {run.place}"):
        with ending.at_once(PROGRAM):
            from hackmatrix.report import curves

        return curves.of_run(run, runs)


def _file(directory: str | Path) -> Path:
    """Returns --out, or else report.html in the directory, or here if that is in a bucket. Ends the
    program if it cannot be written: that it has to play a game may take a while.
    """
    here = Path() if "://" in str(directory) else Path(os.path.expanduser(directory))
    file = _OUT.value or here / "report.html"
    outputs.check_file(PROGRAM, file, _OUT)
    return file


def _write(file: Path, page: str, what: str) -> None:
    outputs.write(PROGRAM, file, page.encode(errors="replace"), _OUT)
    with outputs.printing(PROGRAM):
        print(f"{file}: {what}")


def _parse(arguments: list[str]) -> list[str]:
    rest = command_line.parser(PROGRAM)(arguments)
    if _RUNS.value and run_flags.name():
        sys.exit(f"{PROGRAM}: use --run=RUN or --runs=A,B, not both")
    if _RUNS.value and not all(_RUNS.value):
        sys.exit(f"{PROGRAM}: --runs={','.join(_RUNS.value)} has an empty name: use --runs=A,B")
    return rest


def _replay(run: Run) -> tuple[str | None, str]:
    """Returns the page of a game, or None and the reason why there is none."""
    from hackmatrix.envs import make
    from hackmatrix.envs.hackmatrix_env import is_drawable
    from hackmatrix.report import games
    from hackmatrix.train.policies import policy

    if page := games.newest(run):
        return page, ""
    starting.need_devices()
    if not is_drawable(make(run.config.env)):
        return None, f"Games of {run.config.env} cannot be drawn."
    with starting.waiting(
        f"{PROGRAM}: the run has no replay yet; compiling the game and playing one"
    ):
        try:
            found = policy.of_run(run, starting.say_aside)
            return games.recorded(found, seed=0, number=0).page(), ""
        except UserError as error:
            return None, f"{error}."


if __name__ == "__main__":
    app.run(main, flags_parser=_parse)
