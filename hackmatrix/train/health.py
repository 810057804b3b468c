"""Warnings when a metric leaves its healthy range and stays away for long."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

Metrics = Mapping[str, float]

PATIENCE = 3  # reports in a row
TREND = 20  # reports that make a trend

_RETURN, _LENGTH = "train/mean_episode_return", "train/mean_episode_length"


@dataclass(frozen=True)
class Range:
    """Where a metric is healthy, and what it means, and asks for, when it is below or above."""

    tag: str
    low: float = -math.inf
    high: float = math.inf
    if_below: str = ""
    if_above: str = ""


# Runs that learn well were seen between 0.005 and 0.012, and the entropy of the whole game between
# 0.85 at the start, where some 2.5 actions are valid and all alike, and 0.35.
OF_A_STEADY_RATE = Range(
    "train/approx_kl", low=0.002,
    if_below="the policy hardly changes; a higher --config.lr may learn faster",
)  # fmt: skip
OF_PPO = (
    Range(
        "train/approx_kl", high=0.08,
        if_above="the policy changes too fast; lower --config.lr",
    ),
    Range(
        "train/clip_frac", high=0.30,
        if_above="too much is clipped away; lower --config.lr or --config.update_epochs",
    ),
)  # fmt: skip
OF_HACKMATRIX = (
    Range(
        "train/entropy", low=0.1,
        if_below="the policy stops exploring; raise --config.ent_coef",
    ),
    Range(
        "reward/step_penalty", -0.0105, -0.0095,
        if_below="it is -0.01 for each valid action; the reward is broken",
        if_above="it is -0.01 for each valid action; invalid ones are played, the mask is broken",
    ),
)  # fmt: skip


class Health:
    """Watches the metrics of one run, and warns once an excursion. NaN is no news."""

    def __init__(self, env: str, anneals: bool = False) -> None:
        is_game = env == "hackmatrix"
        self._ranges = [*OF_PPO, *(OF_HACKMATRIX if is_game else ())]
        if not anneals:
            self._ranges.append(OF_A_STEADY_RATE)
        self._outside = dict.fromkeys(self._ranges, 0)
        self._wandering = _Wandering() if is_game else None

    def observe(self, step: int, metrics: Metrics) -> list[str]:
        """What is to be said about these metrics; usually nothing."""
        warnings = [self._warning(each, metrics.get(each.tag, math.nan)) for each in self._ranges]
        if self._wandering:
            warnings.append(self._wandering.warning(metrics))
        return [f"step {step:,}: {warning}" for warning in warnings if warning]

    def _warning(self, healthy: Range, value: float) -> str | None:
        if math.isnan(value):
            return None
        below = value < healthy.low
        if not below and value <= healthy.high:
            self._outside[healthy] = 0
            return None
        self._outside[healthy] += 1
        if self._outside[healthy] != PATIENCE:
            return None
        limit, meaning = (
            (f"below {healthy.low:g}", healthy.if_below)
            if below
            else (f"above {healthy.high:g}", healthy.if_above)
        )
        return f"{healthy.tag} is {value:.3g}, {limit} for {PATIENCE} reports: {meaning}"


class _Wandering:
    """Whether episodes get longer without getting better: the agent walks to and fro."""

    longer = 1.25
    better = 0.1

    def __init__(self) -> None:
        self._reports: deque[tuple[float, float]] = deque(maxlen=TREND)
        self._is_said = False

    def warning(self, metrics: Metrics) -> str | None:
        report = metrics.get(_LENGTH, math.nan), metrics.get(_RETURN, math.nan)
        if math.isnan(sum(report)):
            return None
        self._reports.append(report)
        if len(self._reports) < TREND:
            return None
        (length, gain), (later_length, later_gain) = self._quarter(0), self._quarter(-(TREND // 4))
        wanders = later_length > self.longer * length and later_gain < gain + self.better
        is_new, self._is_said = wanders and not self._is_said, wanders
        if not is_new:
            return None
        return (
            f"episodes grew from {length:.0f} to {later_length:.0f} steps while the return went "
            f"from {gain:.2f} to {later_gain:.2f}: the agent may be walking to and fro"
        )

    def _quarter(self, start: int) -> tuple[float, float]:
        """The mean length and return over a quarter of the reports."""
        reports = list(self._reports)[start:][: TREND // 4]
        lengths, returns = zip(*reports, strict=True)
        return sum(lengths) / len(lengths), sum(returns) / len(returns)
