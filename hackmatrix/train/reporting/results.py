"""Results of evaluated games: means with 95% intervals, as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
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
from hackmatrix.train.runs.places import place
from hackmatrix.train.runs.protocol import Place, Unavailable
from hackmatrix.whole_files import parsed

KINDS = "kinds"
_SHARES = f"{KINDS}/", f"{ACTIONS}/"  # how the tags of shares of actions begin
_ENDS = {each.name for each in fields(Estimate)}
_MOST = 1e300  # a number that a page can show
_TITLE, _COLUMN = 24, 28  # minimum widths


Summary = dict[str, Estimate]
Rows = list[tuple[str, list[str]]]  # a title, and a cell for each player


def summary(games: Mapping[str, np.ndarray], env: Environment) -> Summary:
    """Returns the mean of each result, and shares of all actions taken: of each action under
    "actions/NAME", of each kind of action under "kinds/NAME".
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
    """Returns means over agents that differ only in their seeds, of what was measured of all. The
    intervals are those of the agents' means (Student's t), but no narrower than those of single
    agents on average. All agents play the same games and may share the luck in them, which then
    does not average out: the interval of three agents that never won is that of one.
    """
    return {
        tag: _over([each[tag] for each in agents]).within(*bounds(tag, env))
        for tag in agents[0]
        if all(tag in each for each in agents)
    }


def _over(agents: Sequence[Estimate]) -> Estimate:
    between = estimates.mean(np.array([each.mean for each in agents]))
    # A single game, and games that are all alike, have no interval (NaN), and count as exact here.
    known = [each for each in agents if not math.isnan(each.low)]
    below = sum(each.mean - each.low for each in known) / len(agents) if known else math.nan
    above = sum(each.high - each.mean for each in known) / len(agents) if known else math.nan
    low = np.fmin(between.low, between.mean - below)  # these ignore NaN
    high = np.fmax(between.high, between.mean + above)
    return Estimate(between.mean, float(low), float(high))


def levels(random: Mapping[str, Any], *, are_cut: bool) -> dict[str, float]:
    """Returns the means of a random player by tag, from its results in evaluation.json, under the
    tags of the curves in eval/, which are measured in the same games. Unless training's own games
    `are_cut` (episode_limit), the means are comparable with those, too.
    """
    means = {tag: each["mean"] for tag, each in random.items() if each["mean"] is not None}
    measured = {curve(tag): mean for tag, mean in means.items() if not tag.startswith(_SHARES)}
    return measured if are_cut else means | measured


def table(results: Mapping[str, Summary], env: Environment) -> list[str]:
    """Returns lines with the players side by side: what they reached and did, with intervals."""
    lines = [("", headings(results))]
    for heading, rows in parts(results, env):
        indent = "  " if heading else ""
        lines += [(heading, [])] if heading else []
        lines += [(f"{indent}{title}", cells) for title, cells in rows]
    first = max(_TITLE, *(len(title) for title, cells in lines if cells))
    column = max(_COLUMN, *(1 + len(cell) for _, cells in lines for cell in cells))
    return [
        f"{title:{first}}{''.join(cell.rjust(column) for cell in cells)}" if cells else title
        for title, cells in lines
    ]


def headings(players: Iterable[str]) -> list[str]:
    """Returns the headings of the players' columns."""
    return [player.replace("_", ", ") for player in players]


def parts(results: Mapping[str, Summary], env: Environment) -> list[tuple[str, Rows]]:
    """Returns the parts of a table with their headings: what the players reached and did."""
    return [("", reached(results, env)), ("of all actions", used(results))]


def reached(results: Mapping[str, Summary], env: Environment) -> Rows:
    """Returns rows of how the episodes of each player ended."""
    there = next(iter(results.values()))
    return _rows(results, [metric for metric in outcomes(env) if metric.tag in there])


def used(results: Mapping[str, Summary]) -> Rows:
    """Returns rows of the actions that any player took, by kind and one by one."""
    taken = [
        Metric(tag, tag.replace(f"{KINDS}/", "all ").removeprefix(f"{ACTIONS}/"), PERCENT)
        for tag in next(iter(results.values()))
        if tag.startswith(_SHARES) and any(each[tag].mean for each in results.values())
    ]
    return _rows(results, taken)


def best_game(games: Mapping[str, np.ndarray], env: Environment) -> int:
    """Returns the number of the game that came furthest by the environment's goal, if it has one.
    Among equals the highest return wins: a long walk back and forth is not worth watching.
    """
    reached = games.get(env.goal or RETURN, games[RETURN])
    return max(range(len(reached)), key=lambda number: (reached[number], games[RETURN][number]))


def describe_games(evaluation: Mapping[str, Any]) -> str:
    """Describes the games of an evaluation.json."""
    at = f" at step {evaluation['step']:,}" if "step" in evaluation else ""
    return f"{with_unit(evaluation['episodes'], 'game')} of seed {evaluation['seed']}{at}"


def as_json(results: Mapping[str, Summary]) -> dict[str, Any]:
    return {
        player: {tag: _without_nan(asdict(each)) for tag, each in values.items()}
        for player, values in results.items()
    }


def read(file: Path | Place) -> dict[str, Any] | None:
    """Returns the contents of an evaluation.json; None if it is missing or damaged, that is, if it
    lacks the numbers of its games, or an estimate that another player has.
    """
    try:
        told = parsed(place(file).read(), dict)
    except Unavailable:
        raise
    except (OSError, ValueError):
        return None
    # The first revisions wrote no step.
    counts = told.get("step", 0), told.get("episodes"), told.get("seed")
    players = [each for each in told.values() if isinstance(each, dict)]
    agent = told.get("agent")
    is_sound = (
        isinstance(agent, dict)
        and agent
        and all(type(each) is int and 0 <= each < _MOST for each in counts)
        and all(player.keys() == agent.keys() for player in players)
        and all(_is_estimate(each) for player in players for each in player.values())
    )
    return told if is_sound else None


def _is_estimate(told: Any) -> bool:
    return (
        isinstance(told, dict)
        and told.keys() == _ENDS
        and all(
            each is None or (type(each) in (int, float) and abs(each) < _MOST)
            for each in told.values()
        )
    )


def from_json(told: Mapping[str, Any]) -> dict[str, Summary]:
    """Reads the results that `as_json` wrote; skips other entries beside them."""
    return {
        player: {tag: Estimate(**_with_nan(each)) for tag, each in values.items()}
        for player, values in told.items()
        if isinstance(values, dict)
    }


def bounds(tag: str, env: Environment) -> tuple[float, float]:
    """Returns the range that a mean of the summary can be in."""
    metric = {each.tag: each for each in outcomes(env)}.get(tag)
    if tag.startswith(_SHARES) or (metric and metric.unit == PERCENT):
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
    """Replaces NaN, as in the interval of a single game, and infinity by None: JSON has neither."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _with_nan(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: math.nan if value is None else value for name, value in values.items()}
