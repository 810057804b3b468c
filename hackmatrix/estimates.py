"""Means over games, with 95% confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_SIGMAS = 1.96  # of 95%


@dataclass(frozen=True)
class Estimate:
    """A mean over games, and the ends of its 95% confidence interval."""

    mean: float
    low: float
    high: float

    def within(self, least: float, most: float) -> Estimate:
        """No mean is less than the least or more than the most."""
        return Estimate(self.mean, max(self.low, least), min(self.high, most))

    def shown(self, factor: int = 1) -> str:
        """A single game has no interval."""
        mean, low, high = (f"{factor * each:.2f}" for each in (self.mean, self.low, self.high))
        return mean if math.isnan(self.low) else f"{mean}  ({low} to {high})"


def around(mean: float, error: float) -> Estimate:
    """`error` is the standard error of the mean."""
    return Estimate(mean, mean - _SIGMAS * error, mean + _SIGMAS * error)


def mean(column: np.ndarray) -> Estimate:
    of_all = float(column.mean(dtype=np.float64))
    deviation = float(column.std(ddof=1, dtype=np.float64)) if column.size > 1 else math.nan
    return around(of_all, deviation / math.sqrt(column.size))


def proportion(column: np.ndarray) -> Estimate:
    """Wilson's interval: that something never happened in 100 games does not say that it cannot."""
    games, share = column.size, float(column.mean(dtype=np.float64))
    weight = _SIGMAS**2 / games
    centre = (share + weight / 2) / (1 + weight)
    margin = _SIGMAS / (1 + weight) * math.sqrt(share * (1 - share) / games + weight / 4 / games)
    # At 0 and 1 the interval ends there, but for the rounding of floats.
    low, high = min(centre - margin, share), max(centre + margin, share)
    return Estimate(share, max(low, 0.0), min(high, 1.0))
