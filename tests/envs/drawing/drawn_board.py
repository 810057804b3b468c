"""A board with one of everything, to draw."""

from __future__ import annotations

from typing import Any

from hackmatrix.envs.headless.states import read_state
from hackmatrix.envs.headless.view import observation

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


def observe(**changes: Any) -> dict[str, Any]:
    board, owned = read_state({**BOARD, **changes})
    return observation(board, owned, ())
