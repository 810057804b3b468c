"""The board as text and as a picture."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from hackmatrix.envs import drawing, pictures
from hackmatrix.envs.headless_state import read_state
from hackmatrix.envs.headless_view import observation
from hackmatrix.game.programs import PROGRAMS

CELL = 25 * pictures.PIXEL  # with the line beside it
BOARD: dict[str, Any] = {
    "player": {"row": 2, "col": 3, "hp": 2, "credits": 11, "energy": 7, "dataSiphons": 1},
    "enemies": [
        {"type": "virus", "row": 2, "col": 0, "hp": 2},
        {"type": "daemon", "row": 3, "col": 3, "hp": 3, "stunned": True},
        {"type": "cryptog", "row": 5, "col": 1, "hp": 2},
    ],
    "transmissions": [{"row": 0, "col": 1, "turnsRemaining": 2, "enemyType": "glitch"}],
    "blocks": [
        {"row": 4, "col": 4, "type": "data", "points": 7},
        {"row": 1, "col": 1, "type": "program", "programType": "anti-v", "spawnCount": 4},
    ],
    "resources": [{"row": 0, "col": 0, "dataSiphon": True}, {"row": 3, "col": 1, "credits": 3}],
    "ownedPrograms": [18, 5],
    "stage": 3,
}  # fmt: skip


def seen(**changes: Any) -> dict[str, Any]:
    board, owned = read_state({**BOARD, **changes})
    return observation(board, owned, ())


def words(text: str) -> list[list[list[str]]]:
    """Of each cell, row 0 first, its two lines."""
    lines = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    rows = [list(zip(*lines[start : start + 2], strict=True)) for start in range(0, 12, 2)]
    return [[[part.strip() for part in cell] for cell in row] for row in reversed(rows)]


def changed_cells(one: np.ndarray, other: np.ndarray) -> set[tuple[int, int]]:
    """Of two pictures of boards."""
    rows, columns = np.nonzero((one != other).any(-1)[: 6 * CELL])
    return {(5 - int(row) // CELL, int(column) // CELL)
            for row, column in zip(rows, columns, strict=True)}  # fmt: skip


def test_the_text_names_everything_in_its_place() -> None:
    cells = words(drawing.text(seen(), colour=False))
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


def test_show_shows_what_is_hidden() -> None:
    cells = words(drawing.text(seen(showActivated=True), colour=False))
    assert cells[5][1] == ["cryptog 2", ""]
    assert cells[0][1] == ["glitch>2", ""]


def test_the_means_of_the_player_stand_below_the_board() -> None:
    text = drawing.text(seen(), colour=False)
    for part in ("stage 3", "hp 2/3", "credits 11", "energy 7", "siphons 1", "show push"):
        assert part in text


def test_colours_change_nothing_of_the_words() -> None:
    plain, coloured = drawing.text(seen(), colour=False), drawing.text(seen())
    assert coloured != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_a_picture_is_of_one_size_however_much_the_player_has() -> None:
    rich = seen(ownedPrograms=list(range(5, 28)))
    assert pictures.picture(rich).shape == pictures.picture(seen()).shape == (606, 453, 3)
    assert len(drawing.status(rich)) <= 7
    assert {name for line in drawing.status(rich)[3:] for name in line.split()} == set(PROGRAMS)


@pytest.mark.parametrize(
    ("changes", "cells"),
    [
        ({"player": {**BOARD["player"], "row": 1}}, {(1, 3), (2, 3)}),
        ({"player": {**BOARD["player"], "hp": 1}}, {(2, 3)}),
        ({"enemies": BOARD["enemies"][1:]}, {(2, 0)}),
        ({"enemies": [*BOARD["enemies"][:1], {**BOARD["enemies"][1], "stunned": False}]}, {(3, 3)}),
        ({"transmissions": []}, {(0, 1)}),
        ({"blocks": BOARD["blocks"][:1]}, {(1, 1)}),
        ({"blocks": [{**BOARD["blocks"][0], "siphoned": True}, BOARD["blocks"][1]]}, {(4, 4)}),
        ({"blocks": [{**BOARD["blocks"][0], "points": 8}, BOARD["blocks"][1]]}, {(4, 4)}),
        ({"resources": BOARD["resources"][:1]}, {(3, 1)}),
        ({"resources": BOARD["resources"][1:]}, {(0, 0)}),
        ({"showActivated": True}, {(0, 1), (5, 1)}),
        ({"enemies": BOARD["enemies"][:2]}, set()),  # the one that is hidden is not drawn
    ],
)
def test_what_changes_on_the_board_changes_the_picture_there(
    changes: dict[str, Any], cells: set[tuple[int, int]]
) -> None:
    before, after = pictures.picture(seen()), pictures.picture(seen(**changes))
    assert changed_cells(before, after) == cells
