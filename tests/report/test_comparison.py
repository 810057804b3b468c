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
    create_run,
    report,
    shown_mean,
    write_evaluation,
    write_metrics,
)

TITLES = "[...document.querySelectorAll('h3')].map(each => each.textContent)"
FIRST = "document.querySelector('figure')"
# The width of each curve of the first chart.
WIDTHS = f"[...{FIRST}.querySelectorAll('path[data-curve]')].map(path => path.getBBox().width)"


def add_replay(run: Run, title: str) -> None:
    run.replays.mkdir()
    (run.replays / f"{STEP}.html").write_text(html.page(short_game(title)))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The page of two runs; one is slower, and has a larger learning rate and two more metrics."""
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium here")
    workdir = tmp_path_factory.mktemp("runs")
    quick = create_run(workdir, name="quick")
    slow = create_run(workdir, name="slow", lr=1e-3)
    write_metrics(quick, RETURN, seconds=60)
    write_metrics(slow, RETURN, "train/entropy", "constructor", seconds=120)
    for run in (quick, slow):
        write_evaluation(run)
        add_replay(run, f"a walk of {run.name}")
    done = report(workdir, "--runs=quick,slow")
    assert done.returncode == 0, done.stderr
    file = workdir / "report.html"
    assert str(file) in done.stdout
    with Browser(program) as browser:
        browser.open(file.as_uri())
        yield browser


def select_axis(page: Browser, axis: str) -> None:
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
    select_axis(page, "minutes")
    quick, slow = page.evaluate(WIDTHS)
    assert slow == pytest.approx(2 * quick, rel=0.01)
    assert "minutes of training" in page.evaluate(f"{FIRST}.textContent")
    select_axis(page, "steps")
    quick, slow = page.evaluate(WIDTHS)
    assert slow == pytest.approx(quick)
    assert "environment steps" in page.evaluate(f"{FIRST}.textContent")


def test_a_pointer_reads_the_nearest_point_of_a_curve_but_not_beyond_its_ends(
    page: Browser,
) -> None:
    """One curve has a point every 10 steps, the other every 40, up to four times as far."""
    legends = page.evaluate("""(() => {
        const xs = gap => Array.from({length: 10}, (_, number) => (number + 1) * gap);
        const curves = [10, 40].map(gap => curve(`of ${gap}`, 0, xs(gap), xs(gap), 1));
        const given = {title: "", tags: [], level: null, factor: 1, curves};
        const others = charts, place = document.createElement("div");
        charts = [];
        draw(place, stepAxis(400), given);
        const legends = [5, 31, 80, 300, null].map(x => {
            look(x);
            return place.querySelector(".legend").textContent;
        });
        charts = others;
        return legends;
    })()""")
    assert legends == [
        "of 10 10of 40 –",
        "of 10 30of 40 –",
        "of 10 80of 40 80",
        "of 10 –of 40 280",
        "of 10 100of 40 400",
    ]


def test_close_ticks_have_different_labels_and_no_share_exceeds_all(page: Browser) -> None:
    def labels(numbers: list[float], gap: float) -> list[str]:
        return page.evaluate(f"{numbers}.map(each => short(each, {gap}))")

    assert labels([2401, 2402, 2403], 1) == ["2.401k", "2.402k", "2.403k"]
    assert labels([99.92, 99.94], 0.02) == ["99.92", "99.94"]
    assert labels([999_800, 1_000_000], 200) == ["999.8k", "1M"]
    assert labels([2e12, 3e15], 1e12) == ["2T", "3P"]
    assert labels([1e-5, 2e-5], 1e-5) == ["1e-5", "2e-5"]
    assert labels([1.25e-4, 1.3e-4], 5e-6) == ["1.25e-4", "1.3e-4"]
    assert page.evaluate("range([100, 100], 100)") == [90, 100]
    assert page.evaluate("range([3, 5], Infinity)") == [2.88, 5.12]


def test_a_chart_may_have_more_points_than_a_call_may_have_arguments(page: Browser) -> None:
    points = "Array.from({length: 300_000}, (_, number) => number)"
    assert page.evaluate(f"range({points}, 300_000)") == [0, 300_000]


def test_when_curves_outnumber_colours_they_differ_in_their_dashes(page: Browser) -> None:
    styles = page.evaluate(
        "Array.from({length: 20}, (_, number) => curve('', number, [], [], 1))"
        ".map(({ink, dash}) => ink + dash)"
    )
    assert len(set(styles)) == 20


def test_only_the_settings_that_differ_are_shown(page: Browser) -> None:
    rows = page.evaluate(
        "[...document.querySelectorAll('#settings + div tr')]"
        ".map(row => row.innerText.split('\\t'))"
    )
    assert rows == [["", "quick", "slow"], ["lr", "0.0003", "0.001"]]


def test_the_evaluations_are_shown_side_by_side_with_intervals(page: Browser) -> None:
    text = page.evaluate("document.body.innerText")
    assert "quick: 9 games of seed 3 at step 163,840" in text
    heads = page.evaluate("[...document.querySelectorAll('thead')].map(each => each.innerText)")
    assert "quick\tslow\trandom player" in heads[0].replace("\n", "")
    cells = page.evaluate("[...document.querySelectorAll('td')].map(each => each.textContent)")
    assert cells[:3] == [shown_mean(each) for each in (AGENT_RETURN, AGENT_RETURN, RANDOM_RETURN)]


def test_a_chart_shows_what_a_random_player_reaches(page: Browser) -> None:
    assert page.evaluate("metrics.random")[RETURN] == RANDOM_RETURN
    labels = page.evaluate(f"[...{FIRST}.querySelectorAll('text')].map(each => each.textContent)")
    assert "random player" in labels


def test_a_game_of_each_run_can_be_stepped_through(page: Browser) -> None:
    for number, name in enumerate(("quick", "slow")):
        frame = f"document.querySelectorAll('iframe')[{number}].contentDocument"
        assert f"a walk of {name}" in page.evaluate(f"{frame}.getElementById('title').textContent")
        page.evaluate(f"{frame}.getElementById('next').click()")
        assert page.evaluate(f"{frame}.getElementById('turn').textContent") == f"1 / {TURNS}"


def test_the_page_fits_a_phone(page: Browser) -> None:
    page.resize(390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert min(page.text_sizes()) >= 12
    heights = page.evaluate(
        "[...document.querySelectorAll('#axes button')].map(each => each.offsetHeight)"
    )
    assert min(heights) >= 44
    page.resize(1200)


def test_the_page_makes_no_network_requests_and_logs_no_errors(page: Browser) -> None:
    assert page.errors == []
    assert [each for each in page.requested if not each.startswith(("file:", "data:"))] == []


def test_runs_of_the_same_name_are_distinguished_and_each_is_shown_once(tmp_path: Path) -> None:
    runs = [create_run(tmp_path / each, name="same") for each in "ab"]
    for run in runs:
        write_metrics(run, RETURN)
        write_evaluation(run)
        add_replay(run, "a walk")
    one, other = (str(run.directory) for run in runs)
    silent = create_run(tmp_path / "a", name="silent").directory
    done = report(tmp_path / "a", f"--runs={one},silent,{other},same")
    assert done.returncode == 0, done.stderr
    assert f"leaving out {silent}: {silent}/metrics.jsonl: No such file" in done.stderr
    assert done.stdout.endswith(f"report.html: {one}, {other}\n")
    page = (tmp_path / "a/report.html").read_text()
    assert f"<th>{one}</th><th>{other}</th>" in page


def test_runs_that_differ_only_in_their_seeds_have_a_column_over_seeds(tmp_path: Path) -> None:
    """It counts neither a run that differs in more nor a second run of the same seed."""
    runs = [create_run(tmp_path, name=f"a-seed{seed}", seed=seed) for seed in (2, 0, 1)]
    runs += [
        create_run(tmp_path, name="again", seed=1),
        create_run(tmp_path, name="other", seed=3, lr=1e-3),
    ]
    for number, run in enumerate(runs):
        write_metrics(run, RETURN)
        write_evaluation(run, more=number)
    reported = [ReportedRun(each, each.name, curves.read(each.metrics), None, "") for each in runs]
    page = comparison(reported)
    assert page.count("over 3 seeds") == 2  # in each part of the table
    assert "<th>other</th><th>over 3 seeds, a-seed0 to a-seed2</th><th>random player</th>" in page
    reached = [results.from_json(json.loads(run.evaluation.read_text())) for run in runs[:3]]
    expected = results.over_seeds([each["agent"] for each in reached], make("hackmatrix"))
    mean, _, interval = expected[RETURN].shown().partition("  ")
    assert f'<td>{mean}  <span class="interval">{interval}</span></td>' in page
    assert "over 2 seeds" not in comparison(reported[2:])
    assert "over 2 seeds, a-seed0 to a-seed2" in comparison(reported[:2])
    run = runs[0]  # trained further since it was evaluated
    run.evaluation.write_text(run.evaluation.read_text().replace('"step": ', '"step": 1, "was": '))
    assert "over 2 seeds" not in comparison(reported[:2])


def test_the_page_states_why_a_run_has_no_evaluation(tmp_path: Path) -> None:
    games = {"reached": 9, "none": 0, "later": 9, "foreign": 9}
    runs = [create_run(tmp_path, name=name, eval_episodes=each) for name, each in games.items()]
    for run in runs:
        write_metrics(run, RETURN)
    write_evaluation(runs[0])
    runs[-1].evaluation.write_text('{"a": 1}')
    reported = [ReportedRun(each, each.name, curves.read(each.metrics), None, "") for each in runs]
    page = comparison(reported)
    assert "reached: 9 games of seed 3" in page
    assert "<p>none: Not evaluated: eval_episodes=0.</p>" in page
    assert "<p>later: Not evaluated yet: a run is evaluated when it ends.</p>" in page
    assert "<p>foreign: Not evaluated: evaluation.json is damaged.</p>" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--runs=quick,lost"], "there is no run 'lost'"),
        (["--runs=quick,other"], "cannot compare runs of different environments: gymnax:"),
        (["--runs=silent"], "none of these runs can be shown"),
        (["--runs=quick", "--run=quick"], "use --run=RUN or --runs=A,B, not both"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused_in_one_line(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    given: Any = {"quick": "hackmatrix", "other": "gymnax:CartPole-v1", "silent": "hackmatrix"}
    for name, env in given.items():
        run = create_run(tmp_path, env, name)
        if name != "silent":
            write_metrics(run, RETURN)
    refused = report(tmp_path, *arguments)
    assert refused.returncode == 1
    assert message in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr
    assert "playing" not in refused.stderr
