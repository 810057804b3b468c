"""Creates runs with metrics and evaluations but without training, and starts launch.report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hackmatrix import estimates
from hackmatrix.envs import make
from hackmatrix.rl.tally import LENGTH, RETURN
from hackmatrix.train.reporting import results
from hackmatrix.train.reporting.progress import STEPS_PER_SECOND
from hackmatrix.train.runs.directory import Run, create
from tests.train.settings import resolved

ROOT = Path(__file__).parents[2]
STEP = 4096
CHUNKS = 40
AGENT_RETURN, RANDOM_RETURN = 5.5, -3.0
AROUND = np.linspace(-1, 1, 9)  # how the returns of games differ from their mean


def create_run(workdir: Path, env: str = "hackmatrix", name: str = "a-run", **given: Any) -> Run:
    """Creates the files of a run in progress, except for a checkpoint."""
    settings = {"lr": 3e-4, "ent_coef": 0.02, **given}
    return create(workdir, resolved(env=env, run_name=name, **settings))


def write_metrics(run: Run, *tags: str, seconds: int = 1) -> None:
    """Writes metrics of CHUNKS chunks that took `seconds` each, and half a line of the next. Only
    every fifth line has the `eval/` tags.
    """
    with run.metrics.open("w") as file:
        for chunk in range(1, CHUNKS + 1):
            values: dict[str, float] = {
                tag: chunk + place
                for place, tag in enumerate(tags)
                if chunk % 5 == 0 or not tag.startswith("eval/")
            }
            values[STEPS_PER_SECOND] = STEP / seconds
            # Halfway the run stops for a day; afterwards the clock of the machine is set back.
            time = 1e9 + seconds * chunk + (86_400 if chunk == CHUNKS // 2 else 0)
            file.write(json.dumps({"step": chunk * STEP, "time": time, **values}) + "\n")
        file.write('{"step": 99')


def write_evaluation(run: Run, more: float = 0.0) -> None:
    """Writes the final evaluation of an agent that returns AGENT_RETURN + `more`."""
    games: Any = {
        LENGTH: np.arange(9.0),
        "ended": np.ones(9),
        "actions": np.eye(9, 28, dtype=int),
    }
    returns = {"agent": AGENT_RETURN + more, "random": RANDOM_RETURN}
    summaries = {
        player: results.summary({**games, RETURN: each + AROUND}, make(run.config.env))
        for player, each in returns.items()
    }
    content = {"step": CHUNKS * STEP, "episodes": 9, "seed": 3, **results.as_json(summaries)}
    run.evaluation.write_text(json.dumps(content))


def shown_mean(value: float) -> str:
    """Formats the mean return of games around `value` as a page does."""
    return estimates.mean(value + AROUND).shown()


def report(workdir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "launch.report", f"--workdir={workdir}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
