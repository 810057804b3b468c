"""All metrics of a run, as the environment, the algorithm and the loop declare them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import Metric, Section
from hackmatrix.errors import UserError
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


def check(env: Environment, algorithm: Any) -> None:
    """Raises UserError if a tag is declared more than once: only one metric would be logged."""
    counted = Counter(metric.tag for metric in metrics(env, algorithm))
    if twice := sorted(tag for tag, count in counted.items() if count > 1):
        raise UserError(
            f"the environment, the algorithm and the trainer together declare {', '.join(twice)} "
            "more than once: rename yours"
        )


def metrics(env: Environment, algorithm: Any) -> list[Metric]:
    """Returns all metrics without their sections."""
    return [metric for section in sections(env, algorithm) for metric in section.metrics]
