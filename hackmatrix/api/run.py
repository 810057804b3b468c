"""A training run, to use from Python."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from hackmatrix.api.agent import Agent
from hackmatrix.report import curves
from hackmatrix.train.config import Config
from hackmatrix.train.policies import policy as policies
from hackmatrix.train.reporting import results
from hackmatrix.train.runs import directory
from hackmatrix.train.runs.protocol import steps_in


class Run:
    """A run that `hackmatrix.train` has finished or stopped."""

    def __init__(self, run: directory.Run, is_finished: bool) -> None:
        # Absolute, as the program may change its working directory.
        self._run = dataclasses.replace(run, directory=run.directory.absolute())
        self._is_finished = is_finished

    @property
    def name(self) -> str:
        return self._run.name

    @property
    def directory(self) -> str:
        """Where the run lives: a path, or an address in a bucket."""
        return str(self._run.place)

    @property
    def config(self) -> Config:
        """All settings that it was trained with."""
        return self._run.config

    @property
    def is_finished(self) -> bool:
        """Whether training reached its end; if not, `hackmatrix.train(resume=run)` goes on."""
        return self._is_finished

    @functools.cached_property
    def evaluation(self) -> dict[str, Any] | None:
        """The contents of its evaluation.json, on the games at its end; None if there were none
        since it was last trained.
        """
        played = results.read(self._run.lasting(self._run.evaluation))
        newest = max(steps_in(self._run.checkpoints), default=None)
        return played if played and newest in (None, played.get("step", newest)) else None

    @functools.cached_property
    def metrics(self) -> dict[str, np.ndarray]:
        """The curves by tag: a value for each chunk of updates, NaN where a chunk has none. "step"
        and "time" (seconds since 1970) are those of the chunks.
        """
        told = curves.read(directory.with_local_files(self._run).metrics, most=None)
        values = {tag: np.array(each, np.float64) for tag, each in told.values.items()}
        return {"step": np.array(told.steps), "time": np.array(told.times), **values}

    def agent(self, *, best: bool = False) -> Agent:
        """Loads its newest checkpoint, or the best one by its own evaluations (eval/)."""
        return Agent(policies.of_run(self._run, best=best))

    def __repr__(self) -> str:
        return f"Run({self.directory})"
