"""The board as text."""

from __future__ import annotations

import re

from hackmatrix.envs.drawing import text as drawing
from tests.envs.drawing.drawn_board import observe


def words(text: str) -> list[list[list[str]]]:
    """Returns the two lines of each cell, row 0 first."""
    lines = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    rows = [list(zip(*lines[start : start + 2], strict=True)) for start in range(0, 12, 2)]
    return [[[part.strip() for part in cell] for cell in row] for row in reversed(rows)]


def test_the_text_names_everything_in_its_place() -> None:
    cells = words(drawing.text(observe(), colour=False))
    assert cells[2][3] == ["@", ""]
    assert cells[2][0] == ["virus 2", ""]
    assert cells[3][3] == ["daemon~3", ""]
    assert cells[0][1] == ["signal>2", ""]
    assert cells[4][4] == ["", "7 ^7"]
    assert cells[1][1] == ["", "anti-v ^4"]
    assert cells[0][0] == ["", "siphon"]
    assert cells[3][1] == ["", "3c"]
    assert cells[5][5] == ["", "exit"]
    assert cells[5][1] == ["", ""]  # a cryptog out of sight
    assert sum(cell != ["", ""] for row in cells for cell in row) == 9


def test_show_reveals_hidden_cryptogs_and_the_types_of_transmissions() -> None:
    cells = words(drawing.text(observe(showActivated=True), colour=False))
    assert cells[5][1] == ["cryptog 2", ""]
    assert cells[0][1] == ["glitch>2", ""]


def test_text_too_long_for_its_cell_is_shortened() -> None:
    signal = {"row": 0, "col": 1, "turnsRemaining": 12, "enemyType": "cryptog"}
    cells = words(drawing.text(observe(showActivated=True, transmissions=[signal]), colour=False))
    assert cells[0][1] == ["crypto>12", ""]
    assert cells[0][0] == ["", "siphon"]


def test_the_players_status_is_written_below_the_board() -> None:
    text = drawing.text(observe(), colour=False)
    for part in ("stage 3", "hp 2/3", "credits 11", "energy 7", "siphons 1", "show push"):
        assert part in text


def test_colours_do_not_change_the_text() -> None:
    plain, coloured = drawing.text(observe(), colour=False), drawing.text(observe())
    assert coloured != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
