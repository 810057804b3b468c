"""Runs that told something without having trained, and the program that shows them."""

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
AROUND = np.linspace(-1, 1, 9)  # what games return more than their mean


def a_run(workdir: Path, env: str = "hackmatrix", name: str = "a-run", **given: Any) -> Run:
    """Its files as a run under way has them, but for a checkpoint."""
    settings = {"lr": 3e-4, "ent_coef": 0.02, **given}
    return create(workdir, resolved(env=env, run_name=name, **settings))


def tell(found: Run, *tags: str, seconds: int = 1) -> None:
    """Metrics of some chunks that took so long, and half a line of the next. Of `eval/` tags only
    some lines tell.
    """
    with found.metrics.open("w") as file:
        for chunk in range(1, CHUNKS + 1):
            values: dict[str, float] = {
                tag: chunk + place
                for place, tag in enumerate(tags)
                if chunk % 5 == 0 or not tag.startswith("eval/")
            }
            values[STEPS_PER_SECOND] = STEP / seconds
            # Halfway it is stopped for a day, on a machine whose clock is then set back.
            time = 1e9 + seconds * chunk + (86_400 if chunk == CHUNKS // 2 else 0)
            file.write(json.dumps({"step": chunk * STEP, "time": time, **values}) + "\n")
        file.write('{"step": 99')


def evaluate(found: Run, more: float = 0.0) -> None:
    """As a run does at its end, by an agent that returns so much more than AGENT_RETURN."""
    games: Any = {
        LENGTH: np.arange(9.0),
        "ended": np.ones(9),
        "actions": np.eye(9, 28, dtype=int),
    }
    returns = {"agent": AGENT_RETURN + more, "random": RANDOM_RETURN}
    summaries = {
        player: results.summary({**games, RETURN: each + AROUND}, make(found.config.env))
        for player, each in returns.items()
    }
    told = {"step": CHUNKS * STEP, "episodes": 9, "seed": 3, **results.as_json(summaries)}
    found.evaluation.write_text(json.dumps(told))


def interval(value: float) -> str:
    """How a page shows what games returned on average."""
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
