"""A run as one self-contained HTML page, without other files and without a network."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from hackmatrix.envs import Environment, make
from hackmatrix.envs.metrics import Section
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
from hackmatrix.train.config import Config, reading, resolve
from hackmatrix.train.reporting import metric_catalogue, results
from hackmatrix.train.runs import directory
from hackmatrix.train.runs.directory import Run


def page(run: Run, curves: Curves, replay: str | None, why_none: str) -> str:
    """Returns the page of a run. `replay` is the page of a game; without it `why_none` is shown."""
    env = make(run.config.env)
    reached = results.read(run.evaluation)
    starts = _starts(run)
    sections = metric_catalogue.sections(env, algorithms.find(run.config.algorithm))
    return sheet(
        "report.html",
        TITLE=escape(run.name),
        STATE=escape(state(run, curves)),
        FIGURES=_figures(curves, sections),
        REACHED=_reached(reached, env) if reached else _not_evaluated(run),
        REPLAY=framed(replay) if replay else f"<p>{escape(why_none)}</p>",
        SETTINGS=_settings(run.config, _resolved(starts)),
        PROVENANCE=_provenance(starts),
        METRICS=inside_script(_metrics(run.config, curves, sections, reached)),
    )


def _starts(run: Run) -> list[dict[str, Any]]:
    """Returns the provenance of each start; none if it cannot be shown, as if another program wrote
    it.
    """
    try:
        starts = directory.starts(Run(run.directory, run.config))  # the files on this machine
        _resolved(starts), _provenance(starts)
    except Exception:  # another program may have written anything
        return []
    return starts


def _figures(curves: Curves, sections: Iterable[Section]) -> str:
    """Shows the newest values of the metrics that the console shows."""
    shown = [
        (metric.title, metric.shown(value))
        for section in sections
        for metric in section.metrics
        if metric.column and (value := curves.newest.get(metric.tag)) is not None
    ]
    return '<span class="faint">latest values</span>' + "".join(
        f'<div><b>{escape(value)}</b><span class="faint">{escape(title)}</span></div>'
        for title, value in shown
    )


def _reached(reached: Mapping[str, Any], env: Environment) -> str:
    games = f"{results.describe_games(reached)}, 95% intervals"
    there = tables(results.from_json(reached), env)
    return f'<p class="faint">{games}</p><div class="side">{there}</div>'


def _not_evaluated(run: Run) -> str:
    how = f"python -m launch.evaluate --run={shlex.quote(str(run.place))}"
    return f"<p>{not_evaluated(run)} For the newest checkpoint: <code>{escape(how)}</code></p>"


def _resolved(starts: Sequence[Mapping[str, Any]]) -> Config:
    """Resolves the defaults for the devices of the first start, for which sizes were chosen."""
    devices: Any = starts[0]["devices"] if starts else {"platform": "cpu", "count": 1}
    return resolve(reading.default(), devices["platform"], devices["count"])


def _settings(config: Config, default: Config) -> str:
    """Shows the settings that differ from their defaults first, marked, with the default. The name
    of the run is left out: the title and the commands have it.
    """
    usual, own = default.settings(), config.settings()
    own = {name: value for name, value in own.items() if name not in ("run_name", "resume")}
    as_usual = {name for name in own.keys() & usual.keys() if own[name] == usual[name]}
    changed = [
        # An algorithm from outside has settings of its own.
        (name, [word(own[name]), word(usual[name]) if name in usual else ""])
        for name in own
        if name not in as_usual
    ]
    rest = [(name, [word(own[name])]) for name in own if name in as_usual]
    ours = table(changed, ["changed", "", "default"], "changed") if changed else ""
    return f'<div class="side">{ours}{table(rest, ["unchanged", ""])}</div>'


def _provenance(starts: Sequence[Mapping[str, Any]]) -> str:
    """Shows the provenance of each start, the newest first; older ones are folded away."""
    tables = [table(_start(each), [], "origin") for each in reversed(starts)]
    older = "".join(tables[1:])
    folded = f"<details><summary>earlier starts</summary>{older}</details>" if older else ""
    return "".join(tables[:1]) + folded


def _start(told: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    git = told["git"]
    revision = git and git["revision"] + (", with changes" if git["dirty"] else "")
    rest = {name: value for name, value in told.items() if name != "git"}
    rows = {**rest, "command": shlex.join(told["command"]), "revision": revision or "unknown"}
    return [(name, [word(value)]) for name, value in rows.items()]


def _metrics(
    config: Config, curves: Curves, sections: Iterable[Section], reached: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Returns what the page's script draws."""
    drawn = [
        {
            "title": title,
            "charts": [
                {
                    "title": chart.title,
                    "curves": [{"tag": tag, "name": name} for tag, name in chart.curves.items()],
                    "factor": chart.factor,
                }
                for chart in some
            ],
        }
        for title, some in charts(sections, curves.values).items()
    ]
    random = (reached or {}).get("random", {})
    return {
        "steps": curves.steps,
        "values": {tag: list(map(short, values)) for tag, values in curves.values.items()},
        "sections": drawn,
        "random": results.levels(random, are_cut=config.episode_limit > 0),
    }
