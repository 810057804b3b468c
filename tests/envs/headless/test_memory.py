"""What a session remembers of a game beyond its state."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np

from hackmatrix.envs.headless import Session
from hackmatrix.envs.headless.memory import Memory, Snapshots
from hackmatrix.game.programs import Program
from hackmatrix.game.ring import History
from hackmatrix.game.state import CRYPTOG, VIRUS
from tests.envs.headless.asking import ask, set_state

UNDO = Program.UNDO


def test_undo_reaches_back_to_the_first_turn(session: Session) -> None:
    seen = [set_state(session, ownedPrograms=[UNDO], player={"row": 0, "col": 0, "credits": 1})]
    for action in itertools.islice(itertools.cycle([0, 0, 0, 1, 3, 1, 1]), 20):
        seen.append(ask(session, "step", actionIndex=action))
        assert not seen[-1]["done"]
    for before in reversed(seen[1:]):
        assert ask(session, "step", actionIndex=UNDO)["observation"] == before["observation"]
    assert UNDO not in ask(session, "getValidActions")["validActions"]


def test_a_stored_snapshot_does_not_keep_the_others_in_memory() -> None:
    ring: Any = np.zeros((4, 3), np.uint32)
    reference = weakref.ref(ring)
    one: Any = np.int32(1)
    before = History(snapshots=ring, head=one, depth=4 * one)
    stored = Snapshots()
    stored.follow(before, before.replace(snapshots=ring + 1, head=2 * one))
    del ring, before
    assert reference() is None


def test_programs_are_listed_in_the_order_of_acquisition(session: Session) -> None:
    blocks = [
        {"row": 1, "col": 0, "type": "program", "programType": "push", "spawnCount": 0},
        {"row": 5, "col": 0, "type": "program", "programType": "wait", "spawnCount": 0},
        {"row": 5, "col": 2, "type": "program", "programType": "row", "spawnCount": 0},
    ]
    player = {"row": 0, "col": 0, "dataSiphons": 3, "credits": 20, "energy": 20}
    set_state(session, player=player, blocks=blocks, ownedPrograms=[24, 14, 14, 9])
    seen = ask(session, "step", actionIndex=4)["observation"]
    assert seen["ownedPrograms"] == [24, 14, 9, 5]
    seen = ask(session, "step", actionIndex=UNDO)["observation"]
    assert seen["ownedPrograms"] == [24, 14, 9, 5]  # the snapshot was taken after the siphon


def test_a_hidden_cryptog_is_hinted_at_where_it_was_last_seen(session: Session) -> None:
    cryptog = {"type": "cryptog", "row": 4, "col": 2, "hp": 2}
    seen = set_state(session, player={"row": 2, "col": 2}, enemies=[cryptog])["observation"]
    assert seen["cryptogHints"] == []
    # It moves one row closer while the player leaves its column.
    seen = ask(session, "step", actionIndex=3)["observation"]
    assert seen["cryptogHints"] == [{"row": 4, "col": 2}]
    assert all("enemy" not in cell for row in seen["cells"] for cell in row)
    assert ask(session, "getInternalState")["enemies"][0]["row"] == 3


def test_hints_stay_with_their_cryptogs_when_another_dies(session: Session) -> None:
    shot = {"type": "virus", "row": 0, "col": 3, "hp": 1}
    hidden = {"type": "cryptog", "row": 5, "col": 5, "hp": 2}
    trapped = [{"row": row, "col": col, "type": "data"} for row, col in ((5, 4), (4, 5))]
    answer = set_state(session, enemies=[shot, hidden], blocks=trapped)
    answer = ask(session, "step", actionIndex=3)
    assert answer["info"]["reward_breakdown"]["kills"] == 0.3
    assert answer["observation"]["cryptogHints"] == [{"row": 5, "col": 5}]


def test_hints_stay_with_their_cryptogs_when_another_in_their_cell_dies(session: Session) -> None:
    weak = {"type": "cryptog", "row": 5, "col": 5, "hp": 1}
    strong = {"type": "cryptog", "row": 4, "col": 4, "hp": 2}
    daemon = {"type": "daemon", "row": 5, "col": 4, "hp": 3}
    player = {"row": 0, "col": 0, "credits": 20, "energy": 20}
    owned = [Program.PUSH, Program.D_BOM]
    set_state(session, player=player, ownedPrograms=owned, enemies=[weak, strong, daemon])
    seen = ask(session, "step", actionIndex=Program.PUSH)["observation"]
    assert seen["cryptogHints"] == [{"row": 5, "col": 5}, {"row": 4, "col": 4}]
    enemies = ask(session, "getInternalState")["enemies"]
    assert [(each["row"], each["col"]) for each in enemies[:2]] == [(5, 5), (5, 5)]
    seen = ask(session, "step", actionIndex=Program.D_BOM)["observation"]
    assert seen["cryptogHints"] == [{"row": 4, "col": 4}]


def test_hints_stay_with_their_cryptogs_when_another_survives_a_shot() -> None:
    def board(*enemies: list[int]) -> dict[str, Any]:
        player = [0, 0, 3, 0, 0, 0, 1, 0]
        board = {"player": player, "owned": [], "show": 0, "transmissions": []}
        return {**board, "cells": [["."]] * 36, "enemies": enemies}

    memory = Memory(board([VIRUS, 0, 3, 2], [CRYPTOG, 5, 5, 2]), [])
    memory.follow(3, board([VIRUS, 0, 2, 1], [CRYPTOG, 4, 5, 2]))
    assert memory.hints() == [(5, 5)]
