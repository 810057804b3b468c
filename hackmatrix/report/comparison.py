"""Several runs side by side as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from hackmatrix.envs import Environment, make
from hackmatrix.errors import UserError
from hackmatrix.replay.html import inside_script
from hackmatrix.report.charts import charts
from hackmatrix.report.curves import Curves
from hackmatrix.report.sheet import (
    framed,
    not_evaluated,
    sheet,
    short,
    state,
    table,
    tables,
    word,
)
from hackmatrix.train import algorithms
from hackmatrix.train.reporting import metric_catalogue, results
from hackmatrix.train.reporting.results import Summary
from hackmatrix.train.runs.directory import Run

_PLAYERS = {"agent": "", "agent_greedy": ", greedy"}
_RANDOM = "random"
_OF_ITS_OWN = ("run_name", "run_suffix", "resume")  # settings that identify a run


@dataclass(frozen=True)
class ReportedRun:
    """A run, its name on the page, its curves, and the page of one of its games, or why there is
    none.
    """

    run: Run
    name: str
    curves: Curves
    replay: str | None
    why_none: str


def comparison(runs: Sequence[ReportedRun]) -> str:
    env = one_environment([each.run for each in runs])
    found = {each.name: results.read(each.run.evaluation) for each in runs}
    evaluations = {name: each for name, each in found.items() if each}
    return sheet(
        "comparison.html",
        TITLE=escape(" · ".join(each.name for each in runs)),
        STATES="".join(_state(each) for each in runs),
        REACHED=_reached(runs, evaluations, env) + _missing(runs, evaluations),
        SETTINGS=_settings(runs),
        GAMES="".join(_game(each) for each in runs),
        METRICS=inside_script(_metrics(runs, env, evaluations)),
    )


def names(runs: Sequence[Run]) -> list[str]:
    """Returns the names of runs on one page: their places, where several have the same name."""
    given = [run.name for run in runs]
    return [run.name if given.count(run.name) == 1 else str(run.place) for run in runs]


def one_environment(runs: Sequence[Run]) -> Environment:
    played = sorted({run.config.env for run in runs})
    if len(played) > 1:
        raise UserError(f"cannot compare runs of different environments: {', '.join(played)}")
    return make(played[0])


def _state(each: ReportedRun) -> str:
    return f'<div class="faint">{escape(f"{each.name}: {state(each.run, each.curves)}")}</div>'


def _reached(runs: Sequence[ReportedRun], evaluations: Mapping[str, Any], env: Environment) -> str:
    players: dict[str, Summary] = {}
    random: dict[str, Summary] = {}
    games = []
    for name, told in evaluations.items():
        there = results.from_json(told)
        players |= {
            f"{name}{how}": there[player] for player, how in _PLAYERS.items() if player in there
        }
        games.append(f"{name}: {results.describe_games(told)}")
        if _RANDOM in there:
            random = {"random player": there[_RANDOM]}
    if not players:
        return ""
    common = set.intersection(*map(set, (players | random).values()))
    players, random = _only(common, players), _only(common, random)
    whole = [each for each in runs if _is_of_newest_step(each, evaluations.get(each.name, {}))]
    over_seeds = _over_seeds(whole, players, env)
    kinds = "95% intervals" + (
        "; those over seeds also show how much agents vary" if over_seeds else ""
    )
    lines = "<br>".join([kinds, *map(escape, games)])
    shown = tables(players | over_seeds | random, env)
    return f'<p class="faint">{lines}</p><div class="side">{shown}</div>'


def _only(tags: set[str], players: Mapping[str, Summary]) -> dict[str, Summary]:
    return {
        name: {tag: each for tag, each in summary.items() if tag in tags}
        for name, summary in players.items()
    }


def _is_of_newest_step(each: ReportedRun, evaluation: Mapping[str, Any]) -> bool:
    """Whether an evaluation is of the newest step of its run, which may have gone on since."""
    newest = each.curves.steps[-1] if each.curves.steps else 0
    return evaluation.get("step", newest) >= newest


def _over_seeds(
    runs: Sequence[ReportedRun], players: Mapping[str, Summary], env: Environment
) -> dict[str, Summary]:
    """Returns the means over agents that differ by their seeds alone."""
    groups: dict[str, dict[int, str]] = {}
    for each in runs:
        if each.name in players:
            settings = each.run.config.settings()
            alike = {name: settings[name] for name in settings.keys() - {"seed", *_OF_ITS_OWN}}
            seeds = groups.setdefault(repr(sorted(alike.items())), {})
            seeds.setdefault(settings["seed"], each.name)
    found = [[names[seed] for seed in sorted(names)] for names in groups.values() if len(names) > 1]
    return {
        f"over {len(names)} seeds, {names[0]} to {names[-1]}": results.over_seeds(
            [players[name] for name in names], env
        )
        for names in found
    }


def _missing(runs: Sequence[ReportedRun], evaluations: Mapping[str, Any]) -> str:
    return "".join(
        f"<p>{escape(each.name)}: {not_evaluated(each.run)}</p>"
        for each in runs
        if each.name not in evaluations
    )


def _settings(runs: Sequence[ReportedRun]) -> str:
    own = [each.run.config.settings() for each in runs]
    names = dict.fromkeys(name for each in own for name in each if name not in _OF_ITS_OWN)
    rows = [
        (name, [word(each[name]) if name in each else "–" for each in own])
        for name in names
        if any(each.get(name) != own[0].get(name) or name not in each for each in own)
    ]
    if not rows:
        return "<p>None.</p>"
    return table(rows, ["", *(each.name for each in runs)])


def _game(each: ReportedRun) -> str:
    shown = framed(each.replay) if each.replay else f"<p>{escape(each.why_none)}</p>"
    return f"<h3>{escape(each.name)}</h3>{shown}"


def _metrics(
    runs: Sequence[ReportedRun], env: Environment, evaluations: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns what the page's script draws: a chart for each metric, with a curve for each run."""
    tags = list(dict.fromkeys(tag for each in runs for tag in each.curves.values))
    names = dict.fromkeys(each.run.config.algorithm for each in runs)
    sections = [
        section
        for name in names
        for section in metric_catalogue.sections(env, algorithms.find(name))
    ]
    drawn = [
        {
            "title": title,
            "charts": [
                {
                    "title": f"{chart.title}: {name}" if name else chart.title,
                    "tag": tag,
                    "factor": chart.factor,
                }
                for chart in some
                for tag, name in chart.curves.items()
            ],
        }
        for title, some in charts(sections, tags).items()
    ]
    played = [each[_RANDOM] for each in evaluations.values() if _RANDOM in each]
    are_cut = any(each.run.config.episode_limit for each in runs)
    levels = [results.levels(random, are_cut=are_cut) for random in played]
    return {
        "runs": [_curves(each) for each in runs],
        "sections": drawn,
        "random": {tag: mean for each in levels for tag, mean in each.items()},
    }


def _curves(each: ReportedRun) -> dict[str, Any]:
    curves = each.curves
    return {
        "name": each.name,
        "steps": curves.steps,
        "minutes": [short(seconds / 60) for seconds in curves.trained],
        "values": {tag: list(map(short, values)) for tag, values in curves.values.items()},
    }
