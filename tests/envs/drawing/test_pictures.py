"""The board as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hackmatrix.envs.drawing import looks, pictures
from hackmatrix.envs.drawing import text as drawing
from hackmatrix.game.programs import PROGRAMS
from tests.envs.drawing.drawn_board import BOARD, observe

CELL = 25 * pictures.PIXEL  # with the line beside it


def changed_cells(one: np.ndarray, other: np.ndarray) -> set[tuple[int, int]]:
    """Returns the cells (row, column) in which two pictures of boards differ."""
    rows, columns = np.nonzero((one != other).any(-1)[: 6 * CELL])
    return {
        (5 - int(row) // CELL, int(column) // CELL)
        for row, column in zip(rows, columns, strict=True)
    }


def test_pictures_have_the_same_size_however_much_the_player_owns() -> None:
    rich = observe(ownedPrograms=list(range(5, 28)))
    assert pictures.picture(rich).shape == pictures.picture(observe()).shape == (606, 453, 3)
    assert len(drawing.status(rich)) <= 7
    assert {name for line in drawing.status(rich)[3:] for name in line.split()} == set(PROGRAMS)


VIRUS = {"type": "virus", "row": 3, "col": 1, "hp": 1}
SIPHONED = {"row": 3, "col": 1, "type": "program", "programType": "anti-v", "siphoned": True}


@pytest.mark.parametrize(
    "beside",
    [
        {"player": {"row": 3, "col": 1}},
        {"enemies": [VIRUS]},
        {"resources": [{"row": 3, "col": 1, "credits": 3, "dataSiphon": True}]},
        {"transmissions": [{"row": 3, "col": 1, "turnsRemaining": 2, "enemyType": "glitch"}],
         "showActivated": True},
        {"blocks": [SIPHONED]},
        {"blocks": [SIPHONED], "enemies": [VIRUS]},
    ],
)  # fmt: skip
def test_nothing_covers_the_number_of_credits(beside: dict[str, Any]) -> None:
    def ink(**changes: Any) -> np.ndarray:
        """Marks the pixels in the lower part of the cell that have the colour of credits."""
        board = {"enemies": [], "transmissions": [], "blocks": [], **changes}
        picture = pictures.picture(with_credits(observe(**board)))
        cell = picture[2 * CELL : 3 * CELL, CELL : 2 * CELL]
        return (cell == looks.COLOURS["credits"]).all(-1)[16 * pictures.PIXEL :]

    assert ink().sum() > 100
    assert (ink(**beside) == ink()).all()


def with_credits(observation: dict[str, Any]) -> dict[str, Any]:
    """Puts credits into a cell, where the game allows them beside anything else."""
    observation["cells"][3][1]["credits"] = 3
    return observation


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
        ({"enemies": BOARD["enemies"][:2]}, set()),  # a hidden cryptog is not drawn
    ],
)
def test_a_change_on_the_board_changes_the_picture_of_its_cells_only(
    changes: dict[str, Any], cells: set[tuple[int, int]]
) -> None:
    before, after = pictures.picture(observe()), pictures.picture(observe(**changes))
    assert changed_cells(before, after) == cells
