"""Several runs on one page, made by the real program and looked at in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hackmatrix.envs import make
from hackmatrix.replay import html
from hackmatrix.report import curves
from hackmatrix.report.comparison import ReportedRun, comparison
from hackmatrix.rl.tally import RETURN
from hackmatrix.train.reporting import results
from hackmatrix.train.runs.directory import Run
from tests.replay.browser import Browser, chromium
from tests.replay.short_game import TURNS, short_game
from tests.report.told_runs import (
    AGENT_RETURN,
    CHUNKS,
    RANDOM_RETURN,
    STEP,
    a_run,
    evaluate,
    interval,
    report,
    tell,
)

TITLES = "[...document.querySelectorAll('h3')].map(each => each.textContent)"
FIRST = "document.querySelector('figure')"
# The width of each curve of the first chart.
WIDTHS = f"[...{FIRST}.querySelectorAll('path[data-curve]')].map(path => path.getBBox().width)"


def with_a_game(found: Run, title: str) -> None:
    found.replays.mkdir()
    (found.replays / f"{STEP}.html").write_text(html.page(short_game(title)))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Of two runs: one is slower, has a greater learning rate, and told of one metric more."""
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium here")
    workdir = tmp_path_factory.mktemp("runs")
    quick = a_run(workdir, name="quick")
    slow = a_run(workdir, name="slow", lr=1e-3)
    tell(quick, RETURN, seconds=60)
    tell(slow, RETURN, "train/entropy", "constructor", seconds=120)
    for found in (quick, slow):
        evaluate(found)
        with_a_game(found, f"a walk of {found.name}")
    done = report(workdir, "--runs=quick,slow")
    assert done.returncode == 0, done.stderr
    file = workdir / "report.html"
    assert str(file) in done.stdout
    with Browser(program) as browser:
        browser.open(file.as_uri())
        yield browser


def over(page: Browser, axis: str) -> None:
    page.evaluate(f"document.querySelector('[data-axis={axis}]').click()")


def test_each_metric_is_a_chart_with_a_curve_of_each_run(page: Browser) -> None:
    assert {"return", "entropy (nats)"} <= {*page.evaluate(TITLES)}
    legend = page.evaluate(f"{FIRST}.querySelector('.legend').textContent")
    assert legend == f"quick {CHUNKS}slow {CHUNKS}"
    drawn = page.evaluate(
        "[...document.querySelectorAll('path[data-curve]')].map(path => path.getTotalLength())"
    )
    assert all(length > 50 for length in drawn)


def test_the_curves_are_drawn_over_steps_and_over_time(page: Browser) -> None:
    over(page, "minutes")
    quick, slow = page.evaluate(WIDTHS)
    assert slow == pytest.approx(2 * quick, rel=0.01)
    assert "minutes of training" in page.evaluate(f"{FIRST}.textContent")
    over(page, "steps")
    quick, slow = page.evaluate(WIDTHS)
    assert slow == pytest.approx(quick)
    assert "environment steps" in page.evaluate(f"{FIRST}.textContent")


def test_a_pointer_reads_each_curve_where_it_is_and_nothing_beyond_its_ends(page: Browser) -> None:
    """One has a point at every step of 10, the other at those of 40, to four times as far."""
    legends = page.evaluate("""(() => {
        const xs = gap => Array.from({length: 10}, (_, number) => (number + 1) * gap);
        const curves = [10, 40].map(gap => curve(`of ${gap}`, 0, xs(gap), xs(gap), 1));
        const given = {title: "", tags: [], level: null, factor: 1, curves};
        const others = charts, place = document.createElement("div");
        charts = [];
        draw(place, stepAxis(400), given);
        const told = [5, 31, 80, 300, null].map(x => {
            look(x);
            return place.querySelector(".legend").textContent;
        });
        charts = others;
        return told;
    })()""")
    assert legends == [
        "of 10 10of 40 –",
        "of 10 30of 40 –",
        "of 10 80of 40 80",
        "of 10 –of 40 280",
        "of 10 100of 40 400",
    ]


def test_ticks_that_lie_close_are_told_apart_and_no_share_is_more_than_all(page: Browser) -> None:
    def told(numbers: list[float], gap: float) -> list[str]:
        return page.evaluate(f"{numbers}.map(each => short(each, {gap}))")

    assert told([2401, 2402, 2403], 1) == ["2.401k", "2.402k", "2.403k"]
    assert told([99.92, 99.94], 0.02) == ["99.92", "99.94"]
    assert told([999_800, 1_000_000], 200) == ["999.8k", "1M"]
    assert told([2e12, 3e15], 1e12) == ["2T", "3P"]
    assert told([1e-5, 2e-5], 1e-5) == ["1e-5", "2e-5"]
    assert told([1.25e-4, 1.3e-4], 5e-6) == ["1.25e-4", "1.3e-4"]
    assert page.evaluate("range([100, 100], 100)") == [90, 100]
    assert page.evaluate("range([3, 5], Infinity)") == [2.88, 5.12]


def test_a_chart_has_room_for_more_points_than_a_call_takes_arguments(page: Browser) -> None:
    points = "Array.from({length: 300_000}, (_, number) => number)"
    assert page.evaluate(f"range({points}, 300_000)") == [0, 300_000]


def test_more_curves_than_colours_differ_in_how_they_are_drawn(page: Browser) -> None:
    looks = page.evaluate(
        "Array.from({length: 20}, (_, number) => curve('', number, [], [], 1))"
        ".map(({ink, dash}) => ink + dash)"
    )
    assert len(set(looks)) == 20


def test_only_the_settings_that_differ_are_told(page: Browser) -> None:
    rows = page.evaluate(
        "[...document.querySelectorAll('#settings + div tr')]"
        ".map(row => row.innerText.split('\\t'))"
    )
    assert rows == [["", "quick", "slow"], ["lr", "0.0003", "0.001"]]


def test_what_they_reached_stands_side_by_side_with_intervals(page: Browser) -> None:
    text = page.evaluate("document.body.innerText")
    assert "quick: 9 games of seed 3 at step 163,840" in text
    heads = page.evaluate("[...document.querySelectorAll('thead')].map(each => each.innerText)")
    assert "quick\tslow\trandom player" in heads[0].replace("\n", "")
    cells = page.evaluate("[...document.querySelectorAll('td')].map(each => each.textContent)")
    assert cells[:3] == [interval(each) for each in (AGENT_RETURN, AGENT_RETURN, RANDOM_RETURN)]


def test_a_chart_shows_what_a_random_player_reaches(page: Browser) -> None:
    assert page.evaluate("metrics.random")[RETURN] == RANDOM_RETURN
    labels = page.evaluate(f"[...{FIRST}.querySelectorAll('text')].map(each => each.textContent)")
    assert "random player" in labels


def test_a_game_of_each_can_be_stepped_through(page: Browser) -> None:
    for number, name in enumerate(("quick", "slow")):
        frame = f"document.querySelectorAll('iframe')[{number}].contentDocument"
        assert f"a walk of {name}" in page.evaluate(f"{frame}.getElementById('title').textContent")
        page.evaluate(f"{frame}.getElementById('next').click()")
        assert page.evaluate(f"{frame}.getElementById('turn').textContent") == f"1 / {TURNS}"


def test_a_phone_shows_all_of_it(page: Browser) -> None:
    page.be_wide(390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert min(page.text_sizes()) >= 12
    heights = page.evaluate(
        "[...document.querySelectorAll('#axes button')].map(each => each.offsetHeight)"
    )
    assert min(heights) >= 44
    page.be_wide(1200)


def test_the_page_asks_nobody_and_its_console_is_silent(page: Browser) -> None:
    assert page.errors == []
    assert [each for each in page.requested if not each.startswith(("file:", "data:"))] == []


def test_runs_of_one_name_are_told_apart_and_one_run_is_shown_once(tmp_path: Path) -> None:
    runs = [a_run(tmp_path / each, name="same") for each in "ab"]
    for found in runs:
        tell(found, RETURN)
        evaluate(found)
        with_a_game(found, "a walk")
    one, other = (str(found.directory) for found in runs)
    done = report(tmp_path / "a", f"--runs={one},{other},same")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"report.html: {one}, {other}\n")
    page = (tmp_path / "a/report.html").read_text()
    assert f"<th>{one}</th><th>{other}</th>" in page


def test_runs_that_differ_by_their_seeds_alone_have_a_column_over_seeds(tmp_path: Path) -> None:
    """A run that differs in more is none of them, nor is a seed that was trained twice another."""
    found = [a_run(tmp_path, name=f"a-seed{seed}", seed=seed) for seed in (2, 0, 1)]
    found += [a_run(tmp_path, name="again", seed=1), a_run(tmp_path, name="other", seed=3, lr=1e-3)]
    for number, run in enumerate(found):
        tell(run, RETURN)
        evaluate(run, more=number)
    told = [ReportedRun(each, each.name, curves.read(each.metrics), None, "") for each in found]
    page = comparison(told)
    assert page.count("over 3 seeds") == 2  # in each part of the table
    assert "<th>other</th><th>over 3 seeds, a-seed0 to a-seed2</th><th>random player</th>" in page
    reached = [results.from_json(json.loads(run.evaluation.read_text())) for run in found[:3]]
    expected = results.over_seeds([each["agent"] for each in reached], make("hackmatrix"))
    mean, _, interval = expected[RETURN].shown().partition("  ")
    assert f'<td>{mean}  <span class="interval">{interval}</span></td>' in page
    assert "over 2 seeds" not in comparison(told[2:])
    assert "over 2 seeds, a-seed0 to a-seed2" in comparison(told[:2])
    run = found[0]  # which has gone on since it was evaluated
    run.evaluation.write_text(run.evaluation.read_text().replace('"step": ', '"step": 1, "was": '))
    assert "over 2 seeds" not in comparison(told[:2])


def test_of_a_run_without_an_evaluation_it_is_said_why(tmp_path: Path) -> None:
    games = {"reached": 9, "none": 0, "later": 9, "foreign": 9}
    runs = [a_run(tmp_path, name=name, eval_episodes=each) for name, each in games.items()]
    for found in runs:
        tell(found, RETURN)
    evaluate(runs[0])
    runs[-1].evaluation.write_text('{"a": 1}')
    told = [ReportedRun(each, each.name, curves.read(each.metrics), None, "") for each in runs]
    page = comparison(told)
    assert "reached: 9 games of seed 3" in page
    assert "<p>none: Not evaluated: eval_episodes=0.</p>" in page
    assert "<p>later: Not evaluated yet: a run is evaluated when it ends.</p>" in page
    assert "<p>foreign: Not evaluated: evaluation.json is damaged.</p>" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--runs=quick,lost"], "there is no run 'lost'"),
        (["--runs=quick,other"], "cannot compare runs of different environments: gymnax:"),
        (["--runs=quick,silent"], "the run has no metrics yet"),
        (["--runs=quick", "--run=quick"], "use --run=RUN or --runs=A,B, not both"),
    ],
)
def test_runs_that_cannot_be_compared_are_told_in_a_line(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    given: Any = {"quick": "hackmatrix", "other": "gymnax:CartPole-v1", "silent": "hackmatrix"}
    for name, env in given.items():
        found = a_run(tmp_path, env, name)
        if name != "silent":
            tell(found, RETURN)
        if env == "hackmatrix":
            with_a_game(found, name)
    refused = report(tmp_path, *arguments)
    assert refused.returncode == 1
    assert said in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr
