"""Results of evaluated games: means with 95% intervals, as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from hackmatrix import estimates
from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import PERCENT, Metric, are_shares
from hackmatrix.estimates import Estimate
from hackmatrix.rl.evaluation import curve, outcomes
from hackmatrix.rl.games import ACTIONS
from hackmatrix.rl.tally import RETURN
from hackmatrix.train.config.summary import with_unit

KINDS = "kinds"
_TITLE, _COLUMN = 24, 28  # at least


Summary = dict[str, Estimate]
Rows = list[tuple[str, list[str]]]  # a title, and a cell for each player


def summary(games: Mapping[str, np.ndarray], env: Environment) -> Summary:
    """The mean of each result, and the share of all actions taken: of each under "actions/NAME", of
    those of a kind under "kinds/NAME".
    """
    known = {metric.tag: metric for metric in outcomes(env)}
    results = {
        tag: _result(column, known.get(tag) or Metric(tag, tag))
        for tag, column in games.items()
        if column.ndim == 1
    }
    counts = games[ACTIONS].astype(np.float64)
    taken = dict(zip(env.action_names, counts.T, strict=True))
    for kind, names in env.action_kinds.items():
        results[f"{KINDS}/{kind}"] = estimates.ratio(
            sum(taken[name] for name in names), counts.sum(1)
        )
    for name, column in taken.items():
        results[f"{ACTIONS}/{name}"] = estimates.ratio(column, counts.sum(1))
    return results


def over_seeds(agents: Sequence[Summary], env: Environment) -> Summary:
    """Means over agents that differ by their seeds. The intervals tell how agents differ (Student's
    t), and are no narrower than all games together allow: three agents of which none has won show
    no more about winning than their games do.
    """
    return {
        tag: _over([each[tag] for each in agents]).within(*bounds(tag, env)) for tag in agents[0]
    }


def _over(agents: Sequence[Estimate]) -> Estimate:
    between = estimates.mean(np.array([each.mean for each in agents]))
    below = math.hypot(*(each.mean - each.low for each in agents)) / len(agents)
    above = math.hypot(*(each.high - each.mean for each in agents)) / len(agents)
    # These leave out NaN: agents that are all alike, or single games, have no interval.
    low = np.fmin(between.low, between.mean - below)
    high = np.fmax(between.high, between.mean + above)
    return Estimate(between.mean, float(low), float(high))


def levels(random: Mapping[str, Any]) -> dict[str, float]:
    """What a random player reached, by evaluation.json, of each curve: its games are the same as
    those that a run measures itself by.
    """
    means = {tag: each["mean"] for tag, each in random.items()}
    shares = f"{ACTIONS}/", f"{KINDS}/"
    measured = {curve(tag): mean for tag, mean in means.items() if not tag.startswith(shares)}
    return means | measured


def table(results: Mapping[str, Summary], env: Environment) -> list[str]:
    """The players side by side: lines of what they reached and did, with 95% intervals."""
    lines = [("", headings(results))]
    for heading, rows in parts(results, env):
        indent = "  " if heading else ""
        lines += [(heading, [])] if heading else []
        lines += [(f"{indent}{title}", cells) for title, cells in rows]
    first = max(_TITLE, *(len(title) for title, cells in lines if cells))
    column = max(_COLUMN, *(1 + len(cell) for _, cells in lines for cell in cells))
    return [
        f"{title:{first}}{_side_by_side(cells, column)}" if cells else title
        for title, cells in lines
    ]


def _side_by_side(cells: Iterable[str], width: int) -> str:
    return "".join(cell.rjust(width) for cell in cells)


def headings(players: Iterable[str]) -> list[str]:
    """How the players are called above their columns."""
    return [player.replace("_", ", ") for player in players]


def parts(results: Mapping[str, Summary], env: Environment) -> list[tuple[str, Rows]]:
    """What the players reached, and what they did: the parts of a table, with their headings."""
    return [("", reached(results, env)), ("of all actions", used(results))]


def reached(results: Mapping[str, Summary], env: Environment) -> Rows:
    """How the episodes of each player ended."""
    there = next(iter(results.values()))
    return _rows(results, [metric for metric in outcomes(env) if metric.tag in there])


def used(results: Mapping[str, Summary]) -> Rows:
    """The actions that any player took: all of a kind, and each."""
    taken = [
        Metric(tag, tag.replace(f"{KINDS}/", "all ").removeprefix(f"{ACTIONS}/"), PERCENT)
        for tag in next(iter(results.values()))
        if tag.startswith((f"{KINDS}/", f"{ACTIONS}/"))
        and any(each[tag].mean for each in results.values())
    ]
    return _rows(results, taken)


def best_game(games: Mapping[str, np.ndarray], env: Environment) -> int:
    """The number of the game that came furthest, by the goal of the environment if it has one, and
    among those the one with the highest return: a long walk back and forth is not worth watching.
    """
    reached = games.get(env.goal or RETURN, games[RETURN])
    return max(range(len(reached)), key=lambda number: (reached[number], games[RETURN][number]))


def games(evaluation: Mapping[str, Any]) -> str:
    """Which games an evaluation.json tells of."""
    at = f" at step {evaluation['step']:,}" if "step" in evaluation else ""
    return f"{with_unit(evaluation['episodes'], 'game')} of seed {evaluation['seed']}{at}"


def as_json(results: Mapping[str, Summary]) -> dict[str, Any]:
    return {
        player: {tag: _without_nan(asdict(each)) for tag, each in values.items()}
        for player, values in results.items()
    }


def from_json(told: Mapping[str, Any]) -> dict[str, Summary]:
    """The players that `as_json` told of; what else stands beside them is left out."""
    return {
        player: {tag: Estimate(**_with_nan(each)) for tag, each in values.items()}
        for player, values in told.items()
        if isinstance(values, dict)
    }


def bounds(tag: str, env: Environment) -> tuple[float, float]:
    """The least and the most that a mean of the summary can be."""
    metric = {each.tag: each for each in outcomes(env)}.get(tag)
    if tag.startswith((f"{KINDS}/", f"{ACTIONS}/")) or (metric and metric.unit == PERCENT):
        return 0.0, 1.0
    return (metric.least, metric.most) if metric else (-math.inf, math.inf)


def _rows(results: Mapping[str, Summary], metrics: Sequence[Metric]) -> Rows:
    return [
        (metric.label, [each[metric.tag].shown(metric.factor) for each in results.values()])
        for metric in metrics
    ]


def _result(column: np.ndarray, metric: Metric) -> Estimate:
    is_share = metric.unit == PERCENT and are_shares(column)
    if is_share and np.isin(column, (0, 1)).all():
        return estimates.proportion(column)
    least, most = (0.0, 1.0) if is_share else (metric.least, metric.most)
    return estimates.mean(column).within(least, most)


def _without_nan(values: Mapping[str, float]) -> dict[str, float | None]:
    """JSON knows no NaN, which the interval of a single game is."""
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def _with_nan(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: math.nan if value is None else value for name, value in values.items()}
