"""The page of an episode, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hackmatrix.replay import html
from hackmatrix.replay.record import Episode
from tests.replay.browser import Browser, chromium

PLAYER = "document.querySelector('[data-player]').parentNode.dataset.cell"
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
    """As if a person had dragged the timeline there."""
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


def test_what_was_decided_and_gained_stands_beside_the_board(
    page: Browser, episode: Episode
) -> None:
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


def test_keys_step_and_rewind(page: Browser, episode: Episode) -> None:
    turn = "document.getElementById('turn').textContent"
    page.press("Home")
    page.press("ArrowRight")
    page.press("ArrowRight")
    page.press("ArrowLeft")
    assert page.evaluate(turn) == f"1 / {len(episode.frames) - 1}"
    page.press("End")
    assert f"the end: {episode.end}" in page.evaluate("document.body.innerText")


def test_the_page_asks_nobody_and_its_console_is_silent(page: Browser) -> None:
    assert page.errors == []
    assert [each for each in page.requested if not each.startswith(("file:", "data:"))] == []


def test_a_title_is_text_and_never_markup(page: Browser) -> None:
    assert page.evaluate("document.getElementById('title').textContent").startswith("a <game>")
