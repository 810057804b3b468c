"""Warnings when a metric stays outside its healthy range, or a trend is unhealthy."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping

from hackmatrix.envs.metrics import Range, Trend

Metrics = Mapping[str, float]

PATIENCE = 3  # reports in a row
TREND = 20  # reports over which a trend is measured


class Health:
    """Watches the metrics of one run and warns once per excursion. NaN is ignored."""

    def __init__(self, declared: Iterable[Range | Trend]) -> None:
        checks = list(declared)
        self._outside = {each: (0, 0) for each in checks if isinstance(each, Range)}
        self._trends = [_Watched(each) for each in checks if isinstance(each, Trend)]

    def observe(self, step: int, metrics: Metrics) -> list[str]:
        """Returns warnings about these metrics; usually none."""
        warnings = [self._warning(each, metrics.get(each.tag, math.nan)) for each in self._outside]
        warnings += [each.warning(metrics) for each in self._trends]
        return [f"step {step:,}: {warning}" for warning in warnings if warning]

    def _warning(self, healthy: Range, value: float) -> str | None:
        if math.isnan(value):
            return None
        side = (value > healthy.high) - (value < healthy.low)
        before, reports = self._outside[healthy]
        reports = reports + 1 if side == before else 1
        self._outside[healthy] = side, reports
        if not side or reports != PATIENCE:
            return None
        limit, meaning = (
            (f"below {healthy.low:g}", healthy.if_below)
            if side < 0
            else (f"above {healthy.high:g}", healthy.if_above)
        )
        return f"{healthy.tag} is {value:.3g}, {limit} for {PATIENCE} reports: {meaning}"


class _Watched:
    """The latest reports of the two metrics of a trend."""

    def __init__(self, trend: Trend) -> None:
        self._trend = trend
        self._reports: deque[tuple[float, float]] = deque(maxlen=TREND)
        self._is_said = False

    def warning(self, metrics: Metrics) -> str | None:
        trend = self._trend
        report = metrics.get(trend.growing, math.nan), metrics.get(trend.flat, math.nan)
        if math.isnan(sum(report)):
            return None
        self._reports.append(report)
        if len(self._reports) < TREND:
            return None
        (size, gain), (later_size, later_gain) = self._quarter(0), self._quarter(-(TREND // 4))
        is_bad = later_size > trend.factor * size and later_gain < gain + trend.gain
        is_new, self._is_said = is_bad and not self._is_said, is_bad
        if not is_new:
            return None
        return (
            f"{trend.growing} grew from {size:.0f} to {later_size:.0f} while {trend.flat} went "
            f"from {gain:.2f} to {later_gain:.2f}: {trend.meaning}"
        )

    def _quarter(self, start: int) -> tuple[float, float]:
        """Returns the means of both metrics over a quarter of the reports, from `start` on."""
        reports = list(self._reports)[start:][: TREND // 4]
        growing, flat = zip(*reports, strict=True)
        return sum(growing) / len(growing), sum(flat) / len(flat)
