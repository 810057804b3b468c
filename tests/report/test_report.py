"""The page of a run, made by the real program and looked at in a real browser."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hackmatrix.envs.metrics import Section
from hackmatrix.replay import html
from hackmatrix.report import curves
from hackmatrix.report import page as run_page
from hackmatrix.rl.evaluation import curve
from hackmatrix.rl.tally import RETURN
from hackmatrix.train.config import Config, reading, resolve
from hackmatrix.train.config.rules import WEIGHT
from hackmatrix.train.config.settings import setting
from hackmatrix.train.runs.directory import Run, create
from tests.replay.browser import Browser, chromium
from tests.replay.short_game import TURNS, short_game
from tests.report.told_runs import (
    AGENT_RETURN,
    CHUNKS,
    RANDOM_RETURN,
    STEP,
    create_run,
    report,
    shown_mean,
    write_evaluation,
    write_metrics,
)

REVISION = "4d45" * 10
FRAME = "document.querySelector('iframe').contentDocument"
LINK_HEIGHTS = """[...document.querySelectorAll('nav a, summary')]
  .map(each => each.getBoundingClientRect().height)"""
RETURNS = "document.querySelector('figure')"
TABLES_CUT_OFF = """[...document.querySelectorAll('table')]
  .filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"""
LABELS_CUT_OFF = """[...document.querySelectorAll('figure text')]
  .filter(each => each.getBBox().x < 0).map(each => each.textContent)"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = create_run(tmp_path_factory.mktemp("runs"))
    write_metrics(
        run,
        RETURN,
        "train/entropy",
        "train/approx_kl",
        "stats/mean_stage",
        "reward/kills",
        "reward/step_penalty",
        "train/pg_loss",
        "perf/steps_per_second",
        "eval/mean_stage",
        "constructor",  # which any object of JavaScript has
    )
    write_evaluation(run)
    (start,) = json.loads((run.directory / "provenance.json").read_text())
    start["git"] = {"revision": REVISION, "dirty": True}
    (run.directory / "provenance.json").write_text(json.dumps([start]))
    run.replays.mkdir()
    (run.replays / f"{STEP}.html").write_text(html.page(short_game()))
    (run.replays / f"{STEP // 2}.html").write_text("an older one")
    done = report(run.directory.parent, f"--run={run.name}")
    assert done.returncode == 0, done.stderr
    assert str(run.directory / "report.html") in done.stdout
    return run


@pytest.fixture(scope="module")
def page(reported: Run) -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium here")
    with Browser(program) as browser:
        browser.open((reported.directory / "report.html").as_uri())
        yield browser


def test_every_metric_is_a_curve(page: Browser) -> None:
    drawn = page.evaluate(
        "[...document.querySelectorAll('path[data-curve]')].map(path => path.getTotalLength())"
    )
    assert len(drawn) == 10
    assert all(length > 50 for length in drawn)
    titles = page.evaluate("[...document.querySelectorAll('h3')].map(title => title.textContent)")
    assert {"return", "entropy (nats)", "kills", "step penalty"} <= {*titles}
    tags = page.evaluate("[...document.querySelectorAll('h3')].map(title => title.title)")
    assert {RETURN, "train/entropy", "reward/kills"} <= {*", ".join(tags).split(", ")}
    labels = page.evaluate(f"[...{RETURNS}.querySelectorAll('text')].map(each => each.textContent)")
    assert {"environment steps", "random player", "0", "20", "40", "100k"} <= {*labels}
    random = page.evaluate("metrics.random")
    assert random[RETURN] == random[curve(RETURN)] == RANDOM_RETURN  # the same games
    assert "eval/up" not in random


def test_a_metric_that_few_lines_have_is_drawn_and_has_its_last_value(page: Browser) -> None:
    """It is a metric of the evaluations, which only every fifth line has."""
    figures = "[...document.querySelectorAll('figure')]"
    last = f"each.querySelector('.legend').textContent.endsWith('{CHUNKS + 8}')"
    measured = f"{figures}.filter(each => {last})"
    assert page.evaluate(f"{measured}.length") == 1
    assert page.evaluate(f"{measured}[0].querySelector('path[data-curve]').getBBox().height") > 60


def test_a_pointer_reads_the_value_and_the_step_off_a_curve(page: Browser) -> None:
    legend = f"{RETURNS}.querySelector('.legend').textContent"
    assert page.evaluate(legend).strip() == str(CHUNKS)
    box = page.evaluate(f"{RETURNS}.querySelector('svg').getBoundingClientRect().toJSON()")
    middle = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", **middle)
    chunk = int(page.evaluate(legend))
    assert abs(chunk - CHUNKS / 2) < 4
    assert f"at step {chunk * STEP:,}" in page.evaluate(f"{RETURNS}.textContent")
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    assert page.evaluate(legend).strip() == str(CHUNKS)


def test_the_newest_replay_can_be_stepped_through(page: Browser) -> None:
    turn, board = f"{FRAME}.getElementById('turn').textContent", f"{FRAME}.body.innerText"
    assert page.evaluate(turn) == f"0 / {TURNS}"
    before = page.evaluate(f"{FRAME}.getElementById('board').innerHTML")
    page.evaluate(f"{FRAME}.getElementById('next').click()")
    assert page.evaluate(turn) == f"1 / {TURNS}"
    assert page.evaluate(f"{FRAME}.getElementById('board').innerHTML") != before
    assert "WHAT THE POLICY DECIDES" in page.evaluate(board)
    heights = page.evaluate(
        f"[document.querySelector('iframe').clientHeight, {FRAME}.body.scrollHeight]"
    )
    assert heights[0] >= heights[1]


def test_the_page_fits_a_phone_and_is_large_enough_to_read_and_touch(page: Browser) -> None:
    page.resize(390)
    for expression in ("document", FRAME):
        width = page.evaluate(f"{expression}.documentElement.scrollWidth")
        assert width <= page.evaluate(f"{expression}.documentElement.clientWidth")
    assert min(page.text_sizes() + page.text_sizes(FRAME)) >= 12
    assert min(page.evaluate(LINK_HEIGHTS)) >= 44
    assert page.evaluate(TABLES_CUT_OFF) == []
    page.resize(1200)


def test_labels_of_small_negative_numbers_are_not_cut_off(page: Browser) -> None:
    labels = page.evaluate("[-4e-4, -1.5e-4].map(short)")
    assert labels == ["-4e-4", "-1.5e-4"]
    page.evaluate("""draw(document.getElementById('curves'), stepAxis(2), {title: 'small', tags: [],
      level: null, curves: [curve('', 0, [1, 2], [-4e-4, -1.5e-4], 1)]})""")
    assert page.evaluate(LABELS_CUT_OFF) == []
    page.evaluate("document.getElementById('curves').lastElementChild.remove(), charts.pop()")


def test_the_page_states_results_settings_and_provenance(page: Browser, reported: Run) -> None:
    text = page.evaluate("document.body.innerText")
    assert "9 games of seed 3 at step 163,840" in text
    heads = page.evaluate("[...document.querySelectorAll('thead')].map(each => each.innerText)")
    assert heads[0].split() == ["agent", "random"]
    cells = page.evaluate("[...document.querySelectorAll('td')].map(each => each.textContent)")
    assert cells[:2] == [shown_mean(AGENT_RETURN), shown_mean(RANDOM_RETURN)]
    rows = [
        row.split("\t")
        for row in page.evaluate("[...document.querySelectorAll('tr')].map(each => each.innerText)")
    ]
    changed = page.evaluate(
        "[...document.querySelectorAll('tr.changed')].map(row => row.innerText.split('\\t'))"
    )
    assert ["ent_coef", "0.02", "0.15"] in changed
    assert [row[0] for row in changed] == ["lr", "ent_coef"]
    assert ["gamma", str(reported.config.gamma)] in rows
    assert ["revision", f"{REVISION}, with changes"] in rows
    assert "jax 0." in text


def test_the_page_makes_no_network_requests_and_logs_no_errors(page: Browser) -> None:
    assert page.errors == []
    assert [each for each in page.requested if not each.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize(
    ("env", "why", "workdir", "shown"),
    [
        ("gymnax:CartPole-v1", "Games of gymnax:CartPole-v1 cannot be drawn.", b"fr\xfch", "fr?h"),
        ("hackmatrix", "a-run has no checkpoint yet.", b"early", "early"),
    ],
)
def test_without_a_game_to_show_the_page_states_why(
    tmp_path: Path, env: str, why: str, workdir: bytes, shown: str
) -> None:
    run = create_run(tmp_path / "runs", env)
    write_metrics(run, RETURN)
    moved = (tmp_path / "runs").rename(tmp_path / os.fsdecode(workdir))
    done = report(moved, f"--run={run.name}", f"--out={tmp_path / 'page.html'}")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "page.html").read_text()
    assert why in text
    assert re.search(f"launch.evaluate --run=.*{re.escape(f'{shown}/{run.name}')}", text)


def page_of(run: Run) -> str:
    return run_page.page(run, curves.read(run.metrics), None, "")


def test_a_run_without_a_final_evaluation_is_not_shown_as_awaiting_one(tmp_path: Path) -> None:
    for games, why in ((0, "Not evaluated: eval_episodes=0."), (9, "Not evaluated yet: a run")):
        run = create_run(tmp_path, name=f"of-{games}", eval_episodes=games)
        write_metrics(run, RETURN)
        assert why in page_of(run)


@dataclass(frozen=True)
class Decaying(Config):
    baseline_decay: float = setting(0.5, WEIGHT, since=2)


class Reinforce:
    config_class = Decaying
    sections: tuple[Section, ...] = ()

    def __init__(self, env: Any, network: Any, config: Any, axis: str) -> None: ...


def test_settings_of_a_custom_algorithm_are_shown_too(tmp_path: Path) -> None:
    values = {**reading.default(), "algorithm": f"{__name__}:Reinforce", "baseline_decay": 0.875}
    run = create(tmp_path, resolve({**values, "run_name": "own"}, "cpu", 1))
    write_metrics(run, RETURN)
    assert "<td>0.875</td>" in page_of(run)


@pytest.mark.parametrize(
    "foreign",
    ["{}", "[]", "3", "null", '"a"', '{"a": 1}', "[{}]", "[1]", '{"episodes": 1, "seed": 0}',
     '{"episodes": 1, "seed": 0, "agent": {"a": 1}}',
     '{"episodes": 1, "seed": 0, "agent": {"train/mean_episode_length": {"mean": "a"}}}',
     '[{"devices": {"platform": "cpu", "count": ' + "1" + "0" * 400 + '}}]', "[" * 100_000],
)  # fmt: skip
def test_a_file_of_a_run_with_foreign_content_is_ignored(tmp_path: Path, foreign: str) -> None:
    run = create_run(tmp_path)
    write_metrics(run, RETURN)
    (run.directory / "provenance.json").write_text(foreign)
    write_evaluation(run)
    assert "9 games of seed 3" in page_of(run)
    run.evaluation.write_text(foreign)
    text = page_of(run)
    assert "Not evaluated: evaluation.json is damaged." in text
    assert "ent_coef" in text


def test_a_bundled_agent_in_place_of_a_run_is_refused_in_one_line(tmp_path: Path) -> None:
    done = report(tmp_path, "--run=policies/winner")
    assert done.returncode == 1
    assert "policies/winner is an agent, not a run" in done.stderr.splitlines()[-1]


def test_a_page_that_cannot_be_written_is_reported_before_the_work(tmp_path: Path) -> None:
    run = create_run(tmp_path)  # without metrics, which would be reported later
    (run.directory / "report.html").mkdir()
    done = report(tmp_path, f"--run={run.name}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"launch.report: {run.directory}/report.html: Is a directory; choose another --out"
    )


def test_a_run_without_metrics_is_refused_in_one_line(tmp_path: Path) -> None:
    run = create_run(tmp_path)
    done = report(tmp_path, f"--run={run.name}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"launch.report: {run.metrics}")
    assert "Traceback" not in done.stderr
