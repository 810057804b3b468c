"""Plays a copy of the package whose game has a 24th program, LOAN (see test_programs).

LOAN costs 3 energy, gives 20 credits, is usable with less than 20, and its blocks spawn 9.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from hackmatrix import game
from hackmatrix.envs import make
from hackmatrix.envs.headless import Session

UP, SIPHON, UNDO, LOAN = 0, 4, 14, 28
FLAGS = {"c": 0, "e": 0, "s": 0, "m": 0}
Scenario = dict[str, Any]
step = jax.jit(game.step)


def board(owned: list[int], credits: int = 5, energy: int = 4) -> Scenario:
    """A board with a block of LOAN to the right of the player."""
    cells: list[list[Any]] = [[".", FLAGS] for _ in range(36)]
    cells[1] = ["P", 23, 9, FLAGS]
    return {
        "player": [0, 0, 3, credits, energy, 1, 1, 0], "stage": 1, "turn": 0, "exit": [5, 5],
        "cells": cells, "enemies": [], "transmissions": [], "owned": owned, "show": 0, "calm": 0,
        "step": 0, "atk_uses": 0, "pending": 0, "interval": 12, "next_task": 12,
    }  # fmt: skip


def is_valid(scenario: Scenario) -> bool:
    return bool(game.valid_actions(game.scenario.load(scenario))[LOAN])


def take(state: game.State, action: int) -> game.State:
    state, outcome = step(jax.random.key(0), state, action)
    assert not outcome.invalid
    return state


def expect_loan_to_be_valid_where_owned_affordable_and_usable() -> None:
    assert game.ACTIONS == 29
    assert is_valid(board(owned=[23]))
    assert not is_valid(board(owned=[22]))
    assert not is_valid(board(owned=[23], energy=2))
    assert not is_valid(board(owned=[23], credits=20))


def expect_loan_to_be_siphoned_run_and_undone() -> None:
    start = game.scenario.load(board(owned=[9]))
    observed = np.asarray(game.observe(start))
    assert observed.shape == (10 + 24 + 36 * 43,)
    block = observed[34:].reshape(36, 43)[1]
    assert np.flatnonzero(block).tolist() == [8, 12 + 23, 36]

    siphoned = take(start, SIPHON)
    assert np.asarray(game.observe(siphoned))[10 + 23] == 1
    dumped = game.scenario.dump(siphoned)
    assert len(dumped["transmissions"]) == 9
    assert dumped["owned"] == dumped["history"][0]["owned"] == [9, 23]

    rich = take(siphoned, LOAN)
    assert game.scenario.dump(rich)["player"][3:5] == [5 + 20, 4 - 3]
    undone = game.scenario.dump(take(rich, UNDO))
    assert (undone["player"][3:5], undone["owned"]) == ([5, 4], [9, 23])


def expect_new_boards_to_have_blocks_of_loan() -> None:
    """Those of the next stage here, as the step that draws them is compiled already."""
    before = board(owned=[])
    before["exit"], before["cells"][6] = [1, 0], ["X", FLAGS]
    start = game.scenario.load(before)
    boards = [game.scenario.dump(step(jax.random.key(n), start, UP)[0]) for n in range(64)]
    assert {each["stage"] for each in boards} == {2}
    cells = [cell for each in boards for cell in each["cells"]]
    assert {cell[2] for cell in cells if cell[0] in ("P", "QP") and cell[1] == 23} == {9}


def expect_environments_to_have_an_action_for_loan() -> None:
    env = make("hackmatrix")
    assert (env.num_actions, env.action_names[LOAN]) == (29, "loan")
    assert env.observation == {"player": (10,), "programs": (24,), "cells": (6, 6, 43)}
    assert Session().answer(b'{"action": "getActionSpace"}') == b'{"actionSpaceSize":29}'


if __name__ == "__main__":
    expect_environments_to_have_an_action_for_loan()
    expect_loan_to_be_valid_where_owned_affordable_and_usable()
    expect_loan_to_be_siphoned_run_and_undone()
    expect_new_boards_to_have_blocks_of_loan()
