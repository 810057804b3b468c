"""A full list drops new entries and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from boards import State, plain
from soundness import faults
from steps import Programs, load

from hackmatrix import game
from tests.compiled_game import BATCH, keys, rows

Tree = Any
WAIT, UNDO = 5, 9


def crowded(**lists: Any) -> State:
    return {**plain(), "owned": [WAIT], "enemies": [], "transmissions": [], **lists}


def far_cells(number: int) -> list[list[int]]:
    """This many cells, from the last cell of the board backwards."""
    return [list(divmod(35 - index, 6)) for index in range(number)]


def wait(programs: Programs, state: State) -> State:
    boards = load([state])
    after, outcome = programs.step(keys(6), boards, np.full(BATCH, 5 + WAIT, np.int32))
    assert not outcome.invalid.any()
    assert not list(faults(after))
    return after


def test_new_enemies_are_dropped_when_the_list_of_enemies_is_full(programs: Programs) -> None:
    enemies = [[1, *cell, 3, 1, 0, 0, 0] for cell in far_cells(31)]
    arriving = [[0, 1, 1, 0, 1, 0], [0, 2, 1, 2, 0, 1], [0, 3, 9, 3, 0, 0]]
    for number in (30, 31, 32):
        full = [*enemies, [1, 1, 1, 3, 1, 0, 0, 0]][:number]
        after = wait(programs, crowded(enemies=full, transmissions=arriving))
        new = [[0, 0, 1, 2, 0, 0, 1, 0], [2, 0, 2, 2, 0, 0, 0, 1]][: 32 - number]
        state = game.scenario.dump(rows(after, 0))
        expected = [[*entry[:4], 0, *entry[5:]] for entry in full] + new
        assert state["enemies"] == expected
        assert state["transmissions"] == [[0, 3, 8, 3, 0, 0]]


def test_new_transmissions_are_dropped_when_their_list_is_full(programs: Programs) -> None:
    waiting = [[*cell, 9, number % 4, 0, 0] for number, cell in enumerate(far_cells(31))]
    for number in (30, 31, 32):
        full = [*waiting, [1, 1, 9, 3, 1, 1]][:number]
        after = wait(programs, crowded(transmissions=full, pending=5, turn=8, next_task=9))
        for state in (game.scenario.dump(rows(after, index)) for index in range(8)):
            assert state["transmissions"][:number] == [[*e[:2], 8, *e[3:]] for e in full]
            flags = [entry[4:] for entry in state["transmissions"][number:]]
            assert flags == [[0, 1], [1, 0]][: 32 - number]
            assert (state["pending"], state["enemies"]) == (0, [])


def test_undo_brings_back_a_turn_that_needs_more_bits_than_a_snapshot_has(
    programs: Programs,
) -> None:
    state = crowded(owned=[WAIT, UNDO], calm=1)
    boards = load([state])
    for turn in (2**16 - 1, 2**22, 2**28):
        waited, _ = programs.step(
            keys(6), boards.replace(turn=boards.turn * 0 + turn), np.full(BATCH, 5 + WAIT, np.int32)
        )
        after, outcome = programs.step(keys(6), waited, np.full(BATCH, 5 + UNDO, np.int32))
        assert not outcome.invalid.any()
        back = game.scenario.dump(rows(after, 0))
        assert (back["turn"], back["enemies"], back["show"]) == (turn + 1, [], 0)
