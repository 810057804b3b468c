"""Steps a second, repeated until the number can be believed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax

REPEATS = 3
Value = TypeVar("Value")


@dataclass(frozen=True)
class Rate:
    """Steps a second, one sample a repeat."""

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
    def nanoseconds(self) -> float:
        return 1e9 / self.median

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.samples + other.samples)


def measure(
    run: Callable[[Value], Value], value: Value, steps: int, seconds: float
) -> tuple[Value, Rate]:
    """How fast `run` is, which takes so many steps a call and works on its own last result.

    The first call compiles and warms up, and is not counted. Then come at least REPEATS calls, and
    more until the seconds are over.
    """
    value = jax.block_until_ready(run(value))
    begun = time.perf_counter()
    samples: list[float] = []
    while len(samples) < REPEATS or time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        value = jax.block_until_ready(run(value))
        samples.append(steps / (time.perf_counter() - start))
    return value, Rate(tuple(samples))
