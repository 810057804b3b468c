"""Makes one page of a run: `python -m launch.report --run=RUN [--out=FILE]`.

The page has its curves, its evaluation, its configuration and a game, and needs no network.
It also shows a run that is under way.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import app, flags, logging

from configs import default
from launch.startup import policy_flags, starting

if TYPE_CHECKING:
    from hackmatrix.train.runs.directory import Run

PROGRAM = "launch.report"

_OUT = flags.DEFINE_string("out", None, "The file to write; by default report.html of the run.")


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    starting.stay_off_accelerators()
    starting.keep_compiled_programs()
    run = policy_flags.run(PROGRAM)
    with starting.waiting(f"{PROGRAM}: reading {run.directory}"):
        from hackmatrix.report import curves, page

        try:
            told = curves.read(run.metrics)
        except curves.NoCurves as error:
            sys.exit(f"{PROGRAM}: {error}")
    replay, why_none = _replay(run)
    file = Path(_OUT.value) if _OUT.value else run.directory / "report.html"
    try:
        file.write_text(page.page(run, told, default.get_config(), replay, why_none), "utf-8")
    except OSError as error:
        sys.exit(f"{PROGRAM}: {file}: {error.strerror}; choose another --out")
    print(f"{file}: up to step {told.steps[-1]:,}, {'with' if replay else 'without'} a game")


def _replay(run: Run) -> tuple[str | None, str]:
    """The page of a game, and if there is none the reason."""
    from hackmatrix.envs import make
    from hackmatrix.report import games
    from hackmatrix.train.policies import policy

    if page := games.newest(run):
        return page, ""
    if not make(run.config.env).is_drawable:
        return None, f"Games of {run.config.env} cannot be drawn."
    with starting.waiting(
        f"{PROGRAM}: the run has no replay yet; compiling the game and playing one"
    ):
        try:
            found = policy.load(run.directory.parent, run.name, None, _say)
            return games.as_page(found, seed=0, number=0)[0], ""
        except policy.PolicyError as error:
            return None, f"{error}."


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    app.run(main, flags_parser=policy_flags.parser(PROGRAM, needed=False))
