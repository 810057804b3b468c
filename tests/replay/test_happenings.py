"""The description in words of what a turn did."""

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


def tell(
    action: int, only_seen: bool = False, before: Any = BOARD, happened: str = "", **changes: Any
) -> list[str]:
    """Describes a turn that makes these changes to a board."""
    initial, _ = read_state(before)
    after, _ = read_state({**before, **changes})
    flags = ("done", "invalid", "stage_completed", "won", "died")
    done = {name: np.bool_(name == happened) for name in flags}
    outcome = game.Outcome(np.float32(0), {}, **done)  # type: ignore[arg-type]
    return happenings.tell(initial, action, after, outcome, only_seen=only_seen)


def cryptog(row: int, col: int, **more: Any) -> dict[str, Any]:
    return {"type": "cryptog", "row": row, "col": col, "hp": 2, **more}


def signal(row: int, col: int, turns: int = 1) -> dict[str, Any]:
    return {"row": row, "col": col, "turnsRemaining": turns, "enemyType": "glitch"}


def test_what_enemies_do_is_described() -> None:
    virus, daemon = BOARD["enemies"]
    moved = {**virus, "col": 2}
    assert tell(SIPHON, enemies=[moved, daemon]) == ["virus at row 2 col 0 moves to row 2 col 2"]
    hit = {**BOARD["player"], "hp": 1}
    assert tell(SIPHON, player=hit) == ["enemies hit the player: hp 3 → 1"]
    glitch = {"type": "glitch", "row": 0, "col": 0, "hp": 2}
    assert tell(SIPHON, enemies=[virus, daemon, glitch]) == ["glitch at row 0 col 0 appears"]
    stunned = {**virus, "hp": 1, "stunned": True}
    assert tell(2, enemies=[stunned, daemon]) == ["virus at row 2 col 0 hp 2 → 1, is stunned"]
    before = {**BOARD, "enemies": [{**stunned, "hp": 2}, daemon]}
    assert tell(2, before=before, enemies=[stunned, daemon]) == ["virus at row 2 col 0 hp 2 → 1"]


def test_an_invalid_action_is_described() -> None:
    lines = tell(UP, happened="invalid")
    assert lines == ["the action is invalid and ends the game"]


def test_the_completed_stage_is_named_and_not_the_next_one() -> None:
    richer = {**BOARD["player"], "credits": 6}
    lines = tell(UP, happened="stage_completed", stage=2, player=richer, enemies=[])
    assert lines == ["credits 4 → 6", "stage 1 is completed"]


def test_what_the_player_gains_is_described() -> None:
    richer = {**BOARD["player"], "credits": 6, "score": 3}
    assert tell(SIPHON, player=richer) == ["credits 4 → 6", "score 0 → 3"]


def test_the_programs_that_the_player_gets_are_named() -> None:
    before = {**BOARD, "ownedPrograms": [Program.PUSH]}
    gained = [Program.PUSH, Program.D_BOM]
    assert tell(SIPHON, before=before, ownedPrograms=gained) == ["the player gets d_bom"]


def test_enemies_that_poly_changes_are_not_gone_except_daemons_that_it_kills() -> None:
    virus, daemon = BOARD["enemies"]
    before = {**BOARD, "enemies": [{**daemon, "hp": 1}, virus]}
    assert tell(Program.POLY, before=before, enemies=[{**virus, "type": "glitch"}]) == [
        "daemon at row 5 col 3 is gone",
        "virus at row 2 col 0 becomes a glitch",
    ]


def test_of_two_enemies_of_one_kind_in_a_cell_the_surviving_one_is_recognised() -> None:
    virus, daemon = BOARD["enemies"]
    viruses = {**BOARD, "enemies": [{**virus, "hp": 1}, virus]}
    for action in (Program.ROW, Program.ANTI_V):
        left = [{**virus, "hp": 1, "stunned": True}]
        assert tell(action, before=viruses, enemies=left) == [
            "virus at row 2 col 0 is gone",
            "virus at row 2 col 0 hp 2 → 1, is stunned",
        ]
    weak = {**daemon, "hp": 1}
    daemons = {**BOARD, "enemies": [daemon, weak, {**daemon, "row": 0}]}
    left = [weak, {**daemon, "row": 0}]
    player = {"player": {"row": 4, "col": 3}}
    assert tell(Program.D_BOM, before={**daemons, **player}, enemies=left) == [
        "daemon at row 5 col 3 is gone"
    ]


def test_only_enemies_on_the_board_are_described_to_a_player() -> None:
    def moves(old: dict[str, Any], new: dict[str, Any], **more: Any) -> list[list[str]]:
        before = {**BOARD, "enemies": [old], **more}
        return [tell(SIPHON, only_seen, before, enemies=[new]) for only_seen in (False, True)]

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


def test_of_two_equal_enemies_in_one_cell_only_the_first_is_seen() -> None:
    virus = BOARD["enemies"][0]
    both, apart = [virus, virus], [{**virus, "col": 1}, {**virus, "row": 3}]
    assert tell(SIPHON, True, {**BOARD, "enemies": both}, enemies=apart) == [
        "virus at row 2 col 0 moves to row 2 col 1",
        "virus at row 3 col 0 appears",
    ]
    assert tell(SIPHON, True, {**BOARD, "enemies": apart}, enemies=both) == [
        "virus at row 2 col 1 moves to row 2 col 0",
        "virus at row 3 col 0 goes out of sight",
    ]


def test_the_death_of_an_enemy_is_described_to_a_player_unless_it_was_out_of_sight() -> None:
    shot = {**BOARD, "enemies": [cryptog(2, 5, hp=1)]}
    assert tell(RIGHT, True, shot, enemies=[]) == ["cryptog at row 2 col 5 is gone"]
    hacked = {**BOARD, "enemies": [cryptog(5, 5, hp=1)]}
    assert tell(Program.HACK, True, hacked, enemies=[]) == []
    waiting = {**BOARD, "enemies": [], "transmissions": [signal(5, 5)]}
    assert tell(SIPHON, True, waiting, transmissions=[], enemies=[cryptog(5, 5)]) == []


def test_undo_is_described_by_its_turn_and_the_changes_of_the_player() -> None:
    hurt = {**BOARD["player"], "hp": 2, "credits": 3}
    before = {**BOARD, "turn": 7, "transmissions": [signal(0, 0)]}
    virus, daemon = BOARD["enemies"]
    back: dict[str, Any] = {
        "turn": 6,
        "enemies": [{**virus, "col": 2}, daemon],
        "transmissions": [signal(1, 1)],
    }
    assert tell(Program.UNDO, before=before, **back) == ["UNDO brings back turn 6"]
    assert tell(Program.UNDO, before=before, player=hurt, **back) == [
        "UNDO brings back turn 6",
        "credits 4 → 3",
        "hp 3 → 2",
    ]


def test_new_transmissions_are_counted_whatever_happened_to_earlier_ones() -> None:
    virus, daemon = BOARD["enemies"]
    before = {**BOARD, "transmissions": [signal(3, 3), signal(0, 5), signal(0, 4, turns=3)]}
    glitch = {"type": "glitch", "row": 0, "col": 5, "hp": 2}
    walked = {**daemon, "row": 3}  # to where the player has shot
    after = [signal(0, 4, turns=2), signal(1, 1), signal(1, 0)]
    assert tell(UP, before=before, enemies=[virus, walked, glitch], transmissions=after) == [
        "daemon at row 5 col 3 moves to row 3 col 3",
        "glitch at row 0 col 5 appears",
        "transmission at row 3 col 3 is destroyed",
        "2 new transmissions",
    ]
    assert tell(SIPHON, transmissions=[signal(1, 1)]) == ["1 new transmission"]


def test_a_new_transmission_where_one_was_destroyed_is_described() -> None:
    before = {**BOARD, "transmissions": [signal(3, 3), signal(4, 0)]}
    assert tell(UP, before=before, transmissions=[signal(4, 0), signal(3, 3)]) == [
        "transmission at row 3 col 3 is destroyed",
        "1 new transmission",
    ]
