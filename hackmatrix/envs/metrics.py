"""What a metric is called, how it is shown and where it is healthy.

Whoever computes a metric declares it: environments, algorithms, the training loop. Consoles,
tables, charts and warnings are made from these declarations alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PERCENT = "%"
_ROUNDING = 1e-6
# The tags of what the trainer tells of any play: the return, the length and whether it was cut off
# of an episode; the reward of a step; how many episodes ended (hackmatrix.rl.tally). No environment
# may use them.
OF_PLAY = (
    "train/mean_episode_return",
    "train/mean_episode_length",
    "train/cut_off",
    "train/mean_reward",
    "train/num_episodes",
)
# What the trainer tells of whole games besides: whether one came to an end, and which actions were
# taken in it (hackmatrix.rl.games).
OF_GAMES = "ended", "actions"


@dataclass(frozen=True)
class Metric:
    """A number that is logged under a tag, such as "stats/mean_stage".

    A share has the unit "%", and is shown times 100. Metrics with the same chart are drawn in it as
    curves that are told apart by their titles. `column` is the heading in the console, of a metric
    that is shown there after each chunk, with so many digits after the point.
    """

    tag: str
    title: str
    unit: str = ""
    chart: str = ""
    column: str = ""
    digits: int = 2
    is_signed: bool = False
    least: float = -math.inf  # that a game can have
    most: float = math.inf
    words: Mapping[int, str] = field(default_factory=dict)  # for values that have a name
    is_highest: bool = False  # of several values the greatest says more than their mean

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
    """Metrics that belong together on a page."""

    title: str
    metrics: tuple[Metric, ...]


@dataclass(frozen=True)
class Range:
    """Where a metric is healthy; what it means, and what to do, when it is below or above."""

    tag: str
    low: float = -math.inf
    high: float = math.inf
    if_below: str = ""
    if_above: str = ""


@dataclass(frozen=True)
class Trend:
    """Unhealthy when one metric grows by this factor while the other gains less than so much."""

    growing: str
    factor: float
    flat: str
    gain: float
    meaning: str


def are_shares(values: Any) -> bool:
    """Whether numbers of an array are from 0 to 1, but for the rounding of floats."""
    return bool(((values >= -_ROUNDING) & (values <= 1 + _ROUNDING)).all())
