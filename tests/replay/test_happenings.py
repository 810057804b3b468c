"""What a turn did, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from hackmatrix import game
from hackmatrix.envs.headless.states import read_state
from hackmatrix.game.programs import Program
from hackmatrix.game.state import SIPHON
from hackmatrix.replay import happenings

UP, RIGHT = 0, 3
BOARD: dict[str, Any] = {
    "player": {"row": 2, "col": 3, "hp": 3, "credits": 4},
    "enemies": [
        {"type": "virus", "row": 2, "col": 0, "hp": 2},
        {"type": "daemon", "row": 5, "col": 3, "hp": 3},
    ],
}


def told(
    action: int, only_seen: bool = False, before: Any = BOARD, happened: str = "", **changes: Any
) -> list[str]:
    """Of a turn that leads from a board to what has changed."""
    there, _ = read_state(before)
    after, _ = read_state({**before, **changes})
    flags = ("done", "invalid", "stage_completed", "won", "died")
    done = {name: np.bool_(name == happened) for name in flags}
    outcome = game.Outcome(np.float32(0), {}, **done)  # type: ignore[arg-type]
    return happenings.tell(there, action, after, outcome, only_seen=only_seen)


def cryptog(row: int, col: int, **more: Any) -> dict[str, Any]:
    return {"type": "cryptog", "row": row, "col": col, "hp": 2, **more}


def signal(row: int, col: int, turns: int = 1) -> dict[str, Any]:
    return {"row": row, "col": col, "turnsRemaining": turns, "enemyType": "glitch"}


def test_it_is_told_what_enemies_do() -> None:
    virus, daemon = BOARD["enemies"]
    moved = {**virus, "col": 2}
    assert told(SIPHON, enemies=[moved, daemon]) == ["virus at row 2 col 0 moves to row 2 col 2"]
    hit = {**BOARD["player"], "hp": 1}
    assert told(SIPHON, player=hit) == ["enemies hit the player: hp 3 → 1"]
    glitch = {"type": "glitch", "row": 0, "col": 0, "hp": 2}
    assert told(SIPHON, enemies=[virus, daemon, glitch]) == ["glitch at row 0 col 0 appears"]
    stunned = {**virus, "hp": 1, "stunned": True}
    assert told(2, enemies=[stunned, daemon]) == ["virus at row 2 col 0 hp 2 → 1, is stunned"]
    before = {**BOARD, "enemies": [{**stunned, "hp": 2}, daemon]}
    assert told(2, before=before, enemies=[stunned, daemon]) == ["virus at row 2 col 0 hp 2 → 1"]


def test_it_is_told_that_an_action_was_not_valid() -> None:
    said = told(UP, happened="invalid")
    assert said == ["the action is invalid and ends the game"]


def test_a_stage_that_is_completed_is_named_and_not_the_next_one() -> None:
    richer = {**BOARD["player"], "credits": 6}
    said = told(UP, happened="stage_completed", stage=2, player=richer, enemies=[])
    assert said == ["credits 4 → 6", "stage 1 is completed"]


def test_it_is_told_what_the_player_gains() -> None:
    richer = {**BOARD["player"], "credits": 6, "score": 3}
    assert told(SIPHON, player=richer) == ["credits 4 → 6", "score 0 → 3"]


def test_it_is_told_which_programs_the_player_gets() -> None:
    before = {**BOARD, "ownedPrograms": [Program.PUSH]}
    gained = [Program.PUSH, Program.D_BOM]
    assert told(SIPHON, before=before, ownedPrograms=gained) == ["the player gets d_bom"]


def test_whom_poly_changes_is_not_gone_but_for_daemons_that_die_of_it() -> None:
    virus, daemon = BOARD["enemies"]
    before = {**BOARD, "enemies": [{**daemon, "hp": 1}, virus]}
    assert told(Program.POLY, before=before, enemies=[{**virus, "type": "glitch"}]) == [
        "daemon at row 5 col 3 is gone",
        "virus at row 2 col 0 becomes a glitch",
    ]


def test_of_two_of_a_kind_in_one_cell_it_is_told_who_is_left() -> None:
    virus, daemon = BOARD["enemies"]
    viruses = {**BOARD, "enemies": [{**virus, "hp": 1}, virus]}
    for action in (Program.ROW, Program.ANTI_V):
        left = [{**virus, "hp": 1, "stunned": True}]
        assert told(action, before=viruses, enemies=left) == [
            "virus at row 2 col 0 is gone",
            "virus at row 2 col 0 hp 2 → 1, is stunned",
        ]
    weak = {**daemon, "hp": 1}
    daemons = {**BOARD, "enemies": [daemon, weak, {**daemon, "row": 0}]}
    left = [weak, {**daemon, "row": 0}]
    there = {"player": {"row": 4, "col": 3}}
    assert told(Program.D_BOM, before={**daemons, **there}, enemies=left) == [
        "daemon at row 5 col 3 is gone"
    ]


def test_a_player_is_told_only_of_enemies_that_the_board_shows() -> None:
    def moves(old: dict[str, Any], new: dict[str, Any], **more: Any) -> list[list[str]]:
        before = {**BOARD, "enemies": [old], **more}
        return [told(SIPHON, only_seen, before, enemies=[new]) for only_seen in (False, True)]

    hidden, also_hidden, in_the_row = cryptog(5, 5), cryptog(4, 5), cryptog(2, 5)
    whole, to_the_player = moves(hidden, also_hidden)
    assert whole == ["cryptog at row 5 col 5 moves to row 4 col 5"]
    assert to_the_player == []
    assert moves(in_the_row, also_hidden)[1] == ["cryptog at row 2 col 5 goes out of sight"]
    assert moves(also_hidden, in_the_row)[1] == ["cryptog at row 2 col 5 appears"]
    closer = cryptog(2, 4)
    assert moves(in_the_row, closer)[1] == ["cryptog at row 2 col 5 moves to row 2 col 4"]
    whole, to_the_player = moves(hidden, also_hidden, showActivated=True)
    assert whole == to_the_player


def test_of_two_enemies_that_are_alike_in_one_cell_only_the_first_is_seen() -> None:
    virus = BOARD["enemies"][0]
    both, apart = [virus, virus], [{**virus, "col": 1}, {**virus, "row": 3}]
    assert told(SIPHON, True, {**BOARD, "enemies": both}, enemies=apart) == [
        "virus at row 2 col 0 moves to row 2 col 1",
        "virus at row 3 col 0 appears",
    ]
    assert told(SIPHON, True, {**BOARD, "enemies": apart}, enemies=both) == [
        "virus at row 2 col 1 moves to row 2 col 0",
        "virus at row 3 col 0 goes out of sight",
    ]


def test_a_player_is_told_of_an_enemy_that_is_shot_but_not_of_a_cryptog_that_is_not_seen() -> None:
    shot = {**BOARD, "enemies": [cryptog(2, 5, hp=1)]}
    assert told(RIGHT, True, shot, enemies=[]) == ["cryptog at row 2 col 5 is gone"]
    hacked = {**BOARD, "enemies": [cryptog(5, 5, hp=1)]}
    assert told(Program.HACK, True, hacked, enemies=[]) == []
    waiting = {**BOARD, "enemies": [], "transmissions": [signal(5, 5)]}
    assert told(SIPHON, True, waiting, transmissions=[], enemies=[cryptog(5, 5)]) == []


def test_undo_is_told_by_the_turn_and_what_it_gives_the_player_back() -> None:
    hurt = {**BOARD["player"], "hp": 2, "credits": 3}
    before = {**BOARD, "turn": 7, "transmissions": [signal(0, 0)]}
    virus, daemon = BOARD["enemies"]
    back: dict[str, Any] = {
        "turn": 6,
        "enemies": [{**virus, "col": 2}, daemon],
        "transmissions": [signal(1, 1)],
    }
    assert told(Program.UNDO, before=before, **back) == ["UNDO brings back turn 6"]
    assert told(Program.UNDO, before=before, player=hurt, **back) == [
        "UNDO brings back turn 6",
        "credits 4 → 3",
        "hp 3 → 2",
    ]


def test_transmissions_that_come_are_counted_whatever_became_of_those_before() -> None:
    virus, daemon = BOARD["enemies"]
    before = {**BOARD, "transmissions": [signal(3, 3), signal(0, 5), signal(0, 4, turns=3)]}
    glitch = {"type": "glitch", "row": 0, "col": 5, "hp": 2}
    walked = {**daemon, "row": 3}  # to where the player has shot
    after = [signal(0, 4, turns=2), signal(1, 1), signal(1, 0)]
    assert told(UP, before=before, enemies=[virus, walked, glitch], transmissions=after) == [
        "daemon at row 5 col 3 moves to row 3 col 3",
        "glitch at row 0 col 5 appears",
        "transmission at row 3 col 3 is destroyed",
        "2 new transmissions",
    ]
    assert told(SIPHON, transmissions=[signal(1, 1)]) == ["1 new transmission"]
