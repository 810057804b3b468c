"""Groups curves into charts, as the declarations of the metrics say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hackmatrix.envs.metrics import Metric, Section


@dataclass
class Chart:
    """Curves on one scale: the name of each, by its tag. A factor of 100 makes per cent."""

    title: str
    factor: int = 1
    curves: dict[str, str] = field(default_factory=dict)


def charts(declared: Iterable[Section], tags: Iterable[str]) -> dict[str, list[Chart]]:
    """Returns the charts of each section, for the given tags; undeclared ones come last."""
    there = list(tags)
    found: dict[str, dict[str, Chart]] = {}
    known = set()
    for section in declared:
        for metric in section.metrics:
            known.add(metric.tag)
            if metric.tag in there:
                _add(found.setdefault(section.title, {}), metric)
    more = {tag: Chart(tag, curves={tag: ""}) for tag in there if tag not in known}
    if more:
        found["More"] = more
    return {title: list(each.values()) for title, each in found.items()}


def _add(there: dict[str, Chart], metric: Metric) -> None:
    """Puts a metric into its chart, or into one of its own."""
    title = metric.chart or metric.label
    chart = there.setdefault(title, Chart(title, metric.factor))
    chart.curves[metric.tag] = metric.title if metric.chart else ""
