"""Declarations of metrics: their names, how they are displayed, and where they are healthy.

Whatever computes a metric declares it: an environment, an algorithm, the training loop. Consoles,
tables, charts and warnings are made from these declarations alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PERCENT = "%"
_ROUNDING = 1e-6
# Tags of what the trainer logs for every environment (hackmatrix.rl.tally): an episode's return and
# length, whether it was truncated, a step's reward, and how many episodes ended. No environment may
# use them.
OF_PLAY = (
    "train/mean_episode_return",
    "train/mean_episode_length",
    "train/cut_off",
    "train/mean_reward",
    "train/num_episodes",
)
# What the trainer reports of whole games besides: whether a game came to its own end, and how often
# each action was taken in it (hackmatrix.rl.games).
OF_GAMES = "ended", "actions"
# What each line of metrics.jsonl begins with.
OF_LINES = "step", "time"


@dataclass(frozen=True)
class Metric:
    """A number that is logged under a tag, such as "stats/mean_stage".

    A share has the unit "%" and is displayed times 100. Metrics with the same `chart` are its
    curves, labelled by their titles. A metric with a `column` is printed in the console after each
    chunk, under that heading. `digits` is the number of digits after the point.
    """

    tag: str
    title: str
    unit: str = ""
    chart: str = ""
    column: str = ""
    digits: int = 2
    is_signed: bool = False
    least: float = -math.inf  # the least and the most that a game can have
    most: float = math.inf
    words: Mapping[int, str] = field(default_factory=dict)  # shown in place of these values
    is_highest: bool = False  # whether several values are combined by max, not by mean

    @property
    def factor(self) -> int:
        return 100 if self.unit == PERCENT else 1

    @property
    def label(self) -> str:
        """The title with the unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def shown(self, value: float) -> str:
        """The value as a person reads it."""
        if not math.isfinite(value):
            return "-"
        if value in self.words:
            return self.words[int(value)]
        digits = 0 if abs(value) >= 1000 else self.digits
        sign = "+" if self.is_signed else ""
        percent = self.unit if self.unit == PERCENT else ""
        return f"{self.factor * value:{sign}.{digits}f}{percent}"


@dataclass(frozen=True)
class Section:
    """Metrics that are shown together on a page."""

    title: str
    metrics: tuple[Metric, ...]


@dataclass(frozen=True)
class Range:
    """The healthy range of a metric, and for values outside what they mean and what to do."""

    tag: str
    low: float = -math.inf
    high: float = math.inf
    if_below: str = ""
    if_above: str = ""


@dataclass(frozen=True)
class Trend:
    """Unhealthy if `growing` grows by this factor while `flat` gains less than `gain`."""

    growing: str
    factor: float
    flat: str
    gain: float
    meaning: str


def are_shares(values: Any) -> bool:
    """Whether all numbers of an array are from 0 to 1, up to rounding errors."""
    return bool(((values >= -_ROUNDING) & (values <= 1 + _ROUNDING)).all())
