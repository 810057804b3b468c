"""Measures steps per second, in repeats that alternate between the programs compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import jax

from hackmatrix.parallel.agreement import any_process

REPEATS = 3
Value = TypeVar("Value")


@dataclass(frozen=True)
class Rate:
    """Steps per second, one sample per repeat."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def low(self) -> float:
        return min(self.samples)

    @property
    def high(self) -> float:
        return max(self.samples)

    @property
    def as_json(self) -> dict[str, float]:
        return {"median": self.median, "min": self.low, "max": self.high}

    def over(self, other: Rate) -> float:
        """Returns the median ratio to another rate that was measured in turns with this one."""
        return statistics.median(self._ratios(other))

    def quartiles_over(self, other: Rate) -> tuple[float, float]:
        """Returns the quartiles of the ratios to another rate, as for `over`."""
        lower, _, upper = statistics.quantiles(self._ratios(other), n=4, method="inclusive")
        return lower, upper

    def _ratios(self, other: Rate) -> list[float]:
        pairs = zip(self.samples, other.samples, strict=True)
        return [mine / its for mine, its in pairs]


@dataclass
class Work(Generic[Value]):
    """A program to measure: each call of `run` gets the last result and takes `steps` steps."""

    run: Callable[[Value], Value]
    value: Value
    steps: int

    def sample(self) -> float:
        start = time.perf_counter()
        self.value = jax.block_until_ready(self.run(self.value))
        return self.steps / (time.perf_counter() - start)


def in_turns(*works: Work, seconds: float) -> list[Rate]:
    """Measures several works by calling each in turn, over and over, so that a machine that is slow
    for a while is slow for all of them.

    The first call compiles and warms up, and is not counted. Then come at least REPEATS calls, and
    more until they have taken `seconds` per work. Processes that measure together stop together.
    """
    for work in works:
        work.sample()
    rounds: list[list[float]] = []
    start = time.perf_counter()
    while len(rounds) < REPEATS or any_process(time.perf_counter() - start < seconds * len(works)):
        rounds.append([work.sample() for work in works])
    return [Rate(samples) for samples in zip(*rounds, strict=True)]
