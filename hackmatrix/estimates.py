"""Means over games, with 95% confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_SIGMAS = 1.96  # standard errors, for 95%


@dataclass(frozen=True)
class Estimate:
    """A mean over games, and the ends of its 95% confidence interval."""

    mean: float
    low: float
    high: float

    def within(self, least: float, most: float) -> Estimate:
        """Clips the interval to the possible range. A mean outside of it shows that the range is
        wrong: then the range is ignored.
        """
        if not least <= self.mean <= most:
            return self
        return Estimate(self.mean, max(self.low, least), min(self.high, most))

    def shown(self, factor: int = 1) -> str:
        """Returns the text; a single game has no interval, nor have games that are all alike."""
        mean, low, high = (f"{factor * each:.2f}" for each in (self.mean, self.low, self.high))
        return mean if math.isnan(self.low) else f"{mean}  ({low} to {high})"


def mean(column: np.ndarray) -> Estimate:
    """Estimates the mean, with Student's t, as the deviation is itself an estimate."""
    of_all = float(column.mean(dtype=np.float64))
    if np.unique(column).size == 1:  # nothing shows how much games differ
        return Estimate(of_all, math.nan, math.nan)
    error = float(column.std(ddof=1, dtype=np.float64)) / math.sqrt(column.size)
    margin = _student(column.size - 1) * error
    return Estimate(of_all, of_all - margin, of_all + margin)


def _student(freedom: int) -> float:
    """Returns the 97.5% quantile of Student's t, within 0.004%: the first terms of its expansion,
    and two that stand for the rest.
    """
    terms = _SIGMAS, 2.372, 2.823, 2.556, 1.590, 0.646, 0.759
    return sum(term / freedom**power for power, term in enumerate(terms))


def proportion(column: np.ndarray) -> Estimate:
    """Estimates the share of games in which something happened."""
    return share(float(column.mean(dtype=np.float64)), column.size)


def ratio(part: np.ndarray, whole: np.ndarray) -> Estimate:
    """Estimates the share that the part has of the whole, summed over games, which differ in length
    but are independent. Where a few games have most of the part, the interval is too narrow.
    """
    of_all, games = float(part.sum() / max(whole.sum(), 1)), part.size
    if games == 1:
        return Estimate(of_all, math.nan, math.nan)
    deviation = float((part - of_all * whole).std(ddof=1))
    # Student's t, as in `mean`: the deviation is itself an estimate.
    deviation *= _student(games - 1) / _SIGMAS
    error = deviation / math.sqrt(games) / max(float(whole.mean()), 1)
    # The number of independent draws that would be as precise. Where the games do not differ, as
    # where none has the part, each game counts as one draw.
    draws = of_all * (1 - of_all) / error**2 if error else games
    return share(of_all, draws)


def share(of_all: float, draws: float) -> Estimate:
    """Estimates by Wilson's interval: what never happened in 100 draws may still happen."""
    weight = _SIGMAS**2 / draws
    centre = (of_all + weight / 2) / (1 + weight)
    margin = _SIGMAS / (1 + weight) * math.sqrt(of_all * (1 - of_all) / draws + weight / 4 / draws)
    # For shares of 0 and 1 the interval ends at them, which rounding may miss.
    low, high = min(centre - margin, of_all), max(centre + margin, of_all)
    return Estimate(of_all, max(low, 0.0), min(high, 1.0))
