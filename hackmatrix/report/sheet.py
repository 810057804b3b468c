"""What the pages of this package share: style and script, tables, and games in frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from importlib import resources
from typing import Any

from hackmatrix.envs import Environment
from hackmatrix.replay.html import filled, inside_script
from hackmatrix.report.curves import Curves
from hackmatrix.train.reporting import results
from hackmatrix.train.reporting.results import Summary
from hackmatrix.train.runs.directory import Run


def sheet(template: str, **parts: str) -> str:
    """Fills a template of this package with its parts."""
    shared = {"STYLE": _read("report.css"), "CHARTS": _read("charts.js")}
    return filled(__package__, template, **shared, **parts)


def not_evaluated(run: Run) -> str:
    """Says why there is no evaluation to show."""
    if run.evaluation.exists():
        return "Not evaluated: evaluation.json is damaged."
    if not run.config.eval_episodes:
        return "Not evaluated: eval_episodes=0."
    return "Not evaluated yet: a run is evaluated when it ends."


def state(run: Run, curves: Curves) -> str:
    """Says in a line how far a run has come."""
    config, heard_of = run.config, datetime.fromtimestamp(curves.times[-1], UTC)
    step = curves.steps[-1]
    return (
        f"{config.env} · step {step:,} of {config.last_step(step):,} · "
        f"last update {heard_of:%Y-%m-%d at %H:%M} UTC"
    )


def framed(replay: str) -> str:
    """Returns a frame with the page of a game."""
    content = f'<script data-game type="application/json">{inside_script(replay)}</script>'
    return f'<iframe title="a game"></iframe>{content}'


def word(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    if value is None:
        return "none"
    return f"{value:,}" if type(value) is int else str(value)


def table(rows: Iterable[tuple[str, list[str]]], head: list[str], kind: str = "") -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join(
        f'<tr class="{kind}"><th>{escape(title)}</th>{"".join(map(_cell, cells))}</tr>'
        for title, cells in rows
    )
    return f"<div><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>"


def tables(players: Mapping[str, Summary], env: Environment) -> str:
    """Returns tables of what the players reached and did, side by side under their names."""
    parts = results.parts(players, env)
    return "".join(table(rows, [heading, *players]) for heading, rows in parts)


def _cell(cell: str) -> str:
    """Returns a cell whose interval is not broken: in a narrow column it stands below the mean."""
    mean, bracket, rest = cell.partition(" (")
    interval = f' <span class="interval">({escape(rest)}</span>' if bracket else ""
    return f"<td>{escape(mean)}{interval}</td>"


def short(value: float | None) -> float | None:
    """Rounds a number to as many digits as a curve can show."""
    return value if value is None else float(f"{value:.5g}")


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
