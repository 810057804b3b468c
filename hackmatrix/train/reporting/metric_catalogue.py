"""All metrics of a run, as the environment, the algorithm and the loop declare them."""

from __future__ import annotations

from typing import Any

from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import Metric, Section
from hackmatrix.rl import chunk, evaluation, tally
from hackmatrix.train.reporting import progress


def sections(env: Environment, algorithm: Any) -> tuple[Section, ...]:
    """Returns all metrics by section; `algorithm` may be an algorithm or its class."""
    return (
        tally.SECTION,
        *env.sections,
        evaluation.curves(env),
        *algorithm.sections,
        chunk.SECTION,
        progress.SECTION,
    )


def metrics(env: Environment, algorithm: Any) -> list[Metric]:
    """Returns all metrics without their sections."""
    return [metric for section in sections(env, algorithm) for metric in section.metrics]
