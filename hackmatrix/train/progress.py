"""Telling how a run goes: each chunk's metrics, one chunk late, while the next one runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import jax

from hackmatrix.train.clock import Clock
from hackmatrix.train.config import Config
from hackmatrix.train.program import NEVER, Report


class Broken(Exception):
    """A loss or a gradient was not finite; the run cannot go on."""


def _broken(update: int, metrics: Mapping[str, float]) -> Broken:
    names = [
        name
        for name in ("train/pg_loss", "train/vf_loss", "train/grad_norm")
        if not math.isfinite(metrics[name])
    ]
    return Broken(f"update {update + 1} is broken: {' and '.join(names)} not finite")


class Progress:
    """Reads the report of a chunk when it is handed the next one, or when it is told to."""

    def __init__(
        self,
        config: Config,
        devices: int,
        clock: Clock,
        tell: Callable[[int, Mapping[str, float]], None],
    ) -> None:
        self._config, self._devices, self._clock, self._tell = config, devices, clock, tell
        self._waiting: tuple[int, int, Report] | None = None
        self._begun = self._read_at = clock.seconds()

    def add(self, update: int, updates: int, report: Report) -> None:
        """A chunk of so many updates, up to this one, has been started."""
        late, self._waiting = self._waiting, (update, updates, report)
        self._read(late)

    def flush(self) -> None:
        """Waits for the newest chunk and tells about it too."""
        late, self._waiting = self._waiting, None
        self._read(late)

    def _read(self, chunk: tuple[int, int, Report] | None) -> None:
        if chunk is None:
            return
        update, updates, report = chunk
        with self._clock.phase("run"):
            host: Report = jax.device_get(report)
        metrics = {name: float(value) for name, value in host.metrics.items()}
        if host.broken_at != NEVER:
            raise _broken(int(host.broken_at), metrics)
        now = self._clock.seconds()
        seconds, self._read_at = now - self._read_at, now
        with self._clock.phase("write"):
            self._tell(
                update * self._config.batch_size, metrics | self._speed(update, updates, seconds)
            )

    def _speed(self, update: int, updates: int, seconds: float) -> dict[str, float]:
        steps = updates * self._config.batch_size / seconds
        left = (self._config.num_updates - update) * seconds / updates
        if self._config.time_limit_minutes:
            spent = self._clock.seconds() - self._begun
            left = min(left, 60 * self._config.time_limit_minutes - spent)
        return {
            "perf/steps_per_second": steps,
            "perf/steps_per_second_per_device": steps / self._devices,
            "perf/updates_per_second": updates / seconds,
            "perf/hours_left": max(left, 0) / 3600,
            **{f"perf/seconds_{name}": spent for name, spent in self._clock.spent().items()},
        }
