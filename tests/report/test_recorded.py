"""A recorded game, as a notebook shows it and as a file."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest

from hackmatrix.report.games import Recorded
from tests.replay.browser import Browser, chromium
from tests.replay.short_game import TURNS, short_game

GAME = Recorded(short_game("a <walk> & more"))


def test_a_notebook_shows_the_page_in_a_frame_that_works(tmp_path: Path) -> None:
    assert f'srcdoc="{escape(GAME.page())}"' in GAME._repr_html_()
    if not (program := chromium()):
        pytest.skip("there is no browser here")
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!DOCTYPE html><body>{GAME._repr_html_()}</body>", "utf-8")
    with Browser(program) as browser:
        browser.open(notebook.as_uri())
        shown = "document.querySelector('iframe').contentDocument"
        assert browser.evaluate(f"{shown}.querySelector('h1').textContent").startswith("a <walk>")
        assert browser.evaluate(f"{shown}.querySelector('svg') !== null")


def test_a_game_is_saved_as_a_page_or_for_a_gif_name_as_an_animation(tmp_path: Path) -> None:
    assert GAME.save(tmp_path / "game.html").read_text("utf-8") == GAME.page()
    assert GAME.save(str(tmp_path / "game.gif")).read_bytes().startswith(b"GIF89a")


def test_the_repr_of_a_game_states_its_turns_return_and_outcome() -> None:
    assert repr(GAME) == f"a <walk> & more: {TURNS} turns, return {-0.01 * TURNS:.2f}, not yet"
