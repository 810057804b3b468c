"""A short made-up episode: the player walks along a wall to the exit."""

from __future__ import annotations

from typing import Any

from hackmatrix.envs.hackmatrix_env import ACTION_NAMES
from hackmatrix.envs.headless import Decision
from hackmatrix.envs.headless.states import read_state
from hackmatrix.envs.headless.view import observation
from hackmatrix.replay.record import Episode, Frame

TURNS = 5
_RIGHT = ACTION_NAMES.index("right")


def short_game(title: str = "a walk") -> Episode:
    walk = [_frame(col, _decision()) for col in range(TURNS)]
    return Episode(title, [*walk, _frame(TURNS, None)], "not yet")


def _frame(col: int, decision: Decision | None) -> Frame:
    player: dict[str, Any] = {"row": 0, "col": col, "hp": 3, "credits": 4}
    virus = {"type": "virus", "row": 5, "col": 5 - col, "hp": 2}
    board, owned = read_state({"player": player, "enemies": [virus], "turn": col})
    reward = {"step_penalty": -0.01} if decision else {}
    return Frame(
        seen=observation(board, owned, []),
        valid=[0, _RIGHT],
        decision=decision,
        reward=sum(reward.values()),
        parts=reward,
        happened=[],
    )


def _decision() -> Decision:
    probabilities = [0.0] * len(ACTION_NAMES)
    probabilities[0], probabilities[_RIGHT] = 0.25, 0.75
    return Decision(_RIGHT, probabilities, 1.5)
