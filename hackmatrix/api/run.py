"""A run that was trained, to use from Python."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from hackmatrix.api.agent import Agent
from hackmatrix.report import curves
from hackmatrix.report.sheet import contents
from hackmatrix.train.config import Config
from hackmatrix.train.policies import policy as policies
from hackmatrix.train.runs import directory


class Run:
    """What training left behind."""

    def __init__(self, run: directory.Run, is_finished: bool) -> None:
        self._run, self._is_finished = run, is_finished

    @property
    def name(self) -> str:
        return self._run.name

    @property
    def directory(self) -> str:
        """Where it lies: a path, or an address in a bucket."""
        return str(self._run.place)

    @property
    def config(self) -> Config:
        """The settings that it was trained with, all of them."""
        return self._run.config

    @property
    def is_finished(self) -> bool:
        """Whether it came to its end; if not, `hackmatrix.train(resume=run)` goes on."""
        return self._is_finished

    @functools.cached_property
    def evaluation(self) -> dict[str, Any] | None:
        """What its evaluation.json tells of the games at its end; None where none were played."""
        return contents(directory.read_all(self._run).evaluation)

    @functools.cached_property
    def metrics(self) -> dict[str, np.ndarray]:
        """By tag a value for each of the chunks of updates, NaN where a chunk has none; "step" and
        "time" (seconds since 1970) say when it was.
        """
        told = curves.read_whole(directory.read_all(self._run).metrics)
        values = {tag: np.array(each, np.float64) for tag, each in told.values.items()}
        return {"step": np.array(told.steps), "time": np.array(told.times), **values}

    def agent(self, *, best: bool = False) -> Agent:
        """Its newest checkpoint, or the best by the games that it measured itself by."""
        return Agent(policies.of_run(self._run, best=best))

    def __repr__(self) -> str:
        return f"Run({self.directory})"
