"""The page of an episode, in a real browser."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hackmatrix.replay import html
from hackmatrix.replay.record import Episode
from tests.replay.browser import Browser, chromium

PLAYER = "document.querySelector('[data-player]').parentNode.dataset.cell"
# The labels on the board that extend beyond their cells.
TOO_WIDE = """[...document.querySelectorAll('[data-cell] text')]
  .filter(each => each.getBBox().x < 0 || each.getBBox().x + each.getBBox().width > 100)
  .map(each => each.textContent)"""
BUTTON_SIZES = """[...document.querySelectorAll('button, select, input, #turn')]
  .map(each => each.getBoundingClientRect()).map(box => [box.width, box.height])"""
BOARD = "document.getElementById('board').innerHTML"


@pytest.fixture(scope="module")
def page(episode: Episode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium here")
    file: Path = tmp_path_factory.mktemp("page") / "episode.html"
    file.write_text(html.page(episode), encoding="utf-8")
    with Browser(program) as browser:
        browser.open(file.as_uri())
        yield browser


def scrub(page: Browser, turn: int) -> None:
    """Drags the timeline to this turn."""
    page.evaluate(
        f"{{const line = document.getElementById('timeline'); line.value = {turn};"
        "line.dispatchEvent(new Event('input'))}"
    )


def test_scrubbing_shows_every_board_of_the_episode(page: Browser, episode: Episode) -> None:
    boards = set()
    for turn in reversed(range(len(episode.frames))):
        scrub(page, turn)
        seen = episode.frames[turn].seen
        assert page.evaluate(PLAYER) == f"{seen['playerRow']},{seen['playerCol']}"
        boards.add(page.evaluate(BOARD))
    assert len(boards) > 5


def test_decision_and_reward_are_shown_beside_the_board(page: Browser, episode: Episode) -> None:
    scrub(page, 0)
    text = page.evaluate("document.body.innerText")
    frame = episode.frames[0]
    assert frame.decision is not None
    assert f"value {frame.decision.value:.2f}" in text
    assert f"{frame.reward:.3f}" in text
    for name in frame.parts:
        assert name.replace("_", " ") in text
    for line in frame.happened:
        assert line in text
    bars = page.evaluate("document.querySelectorAll('#decision .row').length")
    assert bars == len(frame.valid)
    assert episode.total
    assert f"· return {episode.total:.2f}" in text


def test_every_board_is_complete_although_only_changes_are_stored(
    page: Browser, episode: Episode
) -> None:
    seen = page.evaluate("frames.map(frame => frame.seen)")
    flags = ("isDataSiphon", "isExit", "siphonCenter")
    for board, frame in zip(seen, episode.frames, strict=True):
        board["cells"] = [
            [{**dict.fromkeys(flags, False), **cell} for cell in row] for row in board["cells"]
        ]
        assert {name: board[name] for name in frame.seen} == frame.seen


def test_rows_and_columns_are_numbered_as_in_the_log(page: Browser) -> None:
    """Row 0 is at the bottom."""
    for kind, side in (("row", "top"), ("col", "left")):
        for line in range(6):
            cell = {"row": f"{line},2", "col": f"2,{line}"}[kind]
            label, place = (
                page.evaluate(f"document.querySelector('{which}').getBoundingClientRect().toJSON()")
                for which in (f'text[data-{kind}="{line}"]', f'[data-cell="{cell}"]')
            )
            assert page.evaluate(
                f"document.querySelector('[data-{kind}=\"{line}\"]').textContent"
            ) == str(line)
            size = {"top": "height", "left": "width"}[side]
            assert place[side] < label[side] + label[size] / 2 < place[side] + place[size]


def test_a_click_on_the_curve_goes_to_that_turn(page: Browser, episode: Episode) -> None:
    page.resize(1200)
    box = page.evaluate("document.getElementById('curve').getBoundingClientRect().toJSON()")
    page.click(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
    last = len(episode.frames) - 1
    assert abs(page.evaluate("now") - last / 4) < 1
    page.click(box["x"] + box["width"] - 1, box["y"] + 2)
    assert page.evaluate("now") == last


def test_value_and_return_each_have_a_scale_which_the_legend_explains(
    page: Browser, episode: Episode
) -> None:
    """Values estimate the rewards that the policy learned from, which may be far smaller."""
    heights = page.evaluate(
        "[...document.querySelectorAll('#curve polyline')].map(line => line.getBBox().height)"
    )
    assert heights == pytest.approx([62, 62])
    turns = page.evaluate("document.querySelector('#curve polyline').points.length")
    assert turns == len(episode.frames) - 1  # the last board has no value
    values = [frame.decision.value for frame in episode.frames if frame.decision]
    legend = page.evaluate("document.getElementById('legend').innerText")
    assert f"blue, {min(values):.2f} to {max(values):.2f}: the value" in legend
    assert "as it saw them in training" in legend
    assert "green, " in legend


def test_every_turn_has_a_link_that_leads_to_it(page: Browser) -> None:
    scrub(page, 7)
    link = page.evaluate("document.getElementById('turn').href")
    assert link.endswith("#turn=7")
    page.open("about:blank")
    page.open(link)
    assert page.evaluate("now") == 7
    page.evaluate(
        "location.hash = '#turn=3'; new Promise(done => addEventListener('hashchange', done))"
    )
    assert page.evaluate("new Promise(done => setTimeout(() => done(now), 50))") == 3


def test_the_speed_can_be_chosen(page: Browser) -> None:
    """The timers that the page sets say how long a turn is shown."""
    page.evaluate(
        "window.waits = []; window.setTimeout = (then, ms) => { waits.push(ms); return 1; }"
    )
    for speed in ("1", "4"):
        page.evaluate(
            f"find('speed').value = '{speed}'; find('play').click(); find('play').click()"
        )
    slow, fast = page.evaluate("waits")
    assert slow == 4 * fast


def test_everything_is_large_enough_on_a_phone(page: Browser, episode: Episode) -> None:
    page.resize(390)
    for turn in range(0, len(episode.frames), 6):
        scrub(page, turn)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert min(page.text_sizes()) >= 12
        assert page.evaluate(TOO_WIDE) == []
    assert min(min(size) for size in page.evaluate(BUTTON_SIZES)) >= 44
    page.resize(1200)


def test_the_page_of_a_repetitive_game_of_1240_steps_is_small(episode: Episode) -> None:
    *walk, end = episode.frames
    frames = [walk[number % len(walk)] for number in range(1240)]
    page = html.page(Episode("to and fro", [*frames, end], "not yet"))
    assert len(page.encode()) < 1_500_000


def test_keys_step_and_rewind(page: Browser, episode: Episode) -> None:
    turn = "document.getElementById('turn').textContent"
    page.press("Home")
    page.press("ArrowRight")
    page.press("ArrowRight")
    page.press("ArrowLeft")
    assert page.evaluate(turn) == f"1 / {len(episode.frames) - 1}"
    page.press("End")
    assert f"the end: {episode.end}" in page.evaluate("document.body.innerText")


def test_shortcuts_and_space_on_a_button_are_left_to_the_browser(page: Browser) -> None:
    scrub(page, 5)
    for modifiers in (1, 2, 4):
        page.press("ArrowLeft", modifiers)
        page.press("Home", modifiers)
    assert page.evaluate("now") == 5
    page.evaluate("find('next').focus()")
    page.press(" ")
    assert page.evaluate("[now, timer]") in ([5, None], [6, None])
    page.evaluate("find('next').blur()")
    page.press(" ")
    assert page.evaluate("timer") is not None
    page.press(" ")


def test_board_and_buttons_are_labelled_for_screen_readers(page: Browser, episode: Episode) -> None:
    scrub(page, 5)
    seen = episode.frames[5].seen
    label = page.evaluate("find('board').getAttribute('aria-label')")
    assert label == (
        f"the board at turn {seen['turn']}: stage {seen['stage']}, the player with "
        f"{seen['playerHP']} hp at row {seen['playerRow']} col {seen['playerCol']}"
    )
    names = "['back', 'next'].map(each => find(each).getAttribute('aria-label'))"
    assert page.evaluate(names) == ["back", "next"]
    assert page.evaluate("document.title") == episode.title


def test_a_title_is_text_and_never_markup(page: Browser) -> None:
    assert page.evaluate("document.getElementById('title').textContent").startswith("a <game>")


def test_values_and_probabilities_that_are_nan_are_shown_as_unknown(
    page: Browser, episode: Episode, tmp_path: Path
) -> None:
    first, *rest = episode.frames
    assert first.decision
    unknown = first.decision._replace(value=math.nan, probabilities=[math.nan] * 28)
    frames = [replace(first, decision=unknown), *rest]
    for name, shown in (("one", frames), ("all", [frames[0], rest[-1]])):
        file = tmp_path / f"{name}.html"
        file.write_text(html.page(Episode("unknown", shown, "death")), encoding="utf-8")
        page.open(file.as_uri())
        text = page.evaluate("document.body.innerText")
        assert "value ?" in text
        assert "?%" in text
        assert "NaN" not in text
        assert "Infinity" not in text


def test_the_page_fetches_nothing_and_its_console_has_no_errors(page: Browser) -> None:
    assert page.errors == []
    assert [each for each in page.requested if not each.startswith(("file:", "data:"))] == []
