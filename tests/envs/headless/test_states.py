"""States that a client sets: read in any usual spelling, or refused with the field's name."""

from __future__ import annotations

from typing import Any

import pytest

from hackmatrix.envs.headless import Session
from hackmatrix.envs.headless.states import read_state
from hackmatrix.game.programs import PROGRAMS
from tests.envs.headless.asking import ask, set_state


def test_a_client_may_put_up_to_seven_credits_or_energy_into_a_cell(session: Session) -> None:
    player = {"row": 2, "col": 2, "dataSiphons": 1}
    resources = [{"row": 2, "col": 3, "credits": 5}, {"row": 1, "col": 2, "energy": 7}]
    seen = set_state(session, player=player, resources=resources)["observation"]
    assert seen["cells"][2][3]["credits"] == 5
    assert seen["cells"][1][2]["energy"] == 7
    answer = ask(session, "step", actionIndex=4)
    assert (answer["observation"]["credits"], answer["observation"]["energy"]) == (5, 7)
    parts = answer["info"]["reward_breakdown"]
    assert {name: part for name, part in parts.items() if part} == {"resourceGain": 0.6}
    assert answer["reward"] == 0.59
    left = [cell for row in answer["observation"]["cells"] for cell in row]
    assert not any("credits" in cell or "energy" in cell for cell in left)


def test_if_a_resource_has_credits_and_energy_the_credits_count(session: Session) -> None:
    both = {"row": 0, "col": 1, "credits": 5, "energy": 9}
    cell = set_state(session, resources=[both])["observation"]["cells"][0][1]
    assert (cell["credits"], "energy" in cell) == (5, False)


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ({"player": {"row": 6, "col": 0}}, "player.row"),
        ({"player": {"row": 0, "col": -1}}, "player.col"),
        ({"player": {"row": 0}}, "missing col"),
        ({"player": {"row": 0, "col": 0, "hp": 4}}, "player.hp"),
        ({"player": {"row": True, "col": 0}}, "player.row: True is not an integer"),
        ({"player": {"row": 0, "col": 0, "credits": True}}, "player.credits"),
        ({"player": {"row": 0, "col": 0, "score": 100_001}}, "player.score: 100001"),
        ({"player": "me"}, "player"),
        ({}, "missing player"),
        ([], "state"),
        ({"stage": 9}, "stage"),
        ({"turn": "now"}, "turn"),
        ({"showActivated": "yes"}, "showActivated"),
        ({"ownedPrograms": [4]}, "ownedPrograms"),
        ({"ownedPrograms": 5}, "ownedPrograms"),
        ({"enemies": [{"type": "bug", "row": 0, "col": 1, "hp": 1}]}, "enemies[0].type"),
        ({"enemies": [{"type": "virus", "row": 0, "col": 1, "hp": 3}]}, "enemies[0].hp"),
        ({"enemies": [{"type": "virus", "row": 0, "col": 1, "hp": 1}] * 33}, "at most 32"),
        ({"enemies": [7]}, "enemies[0]"),
        ({"transmissions": [{"row": 9, "col": 1, "turnsRemaining": 1, "enemyType": "virus"}]},
         "transmissions[0].row"),
        ({"transmissions": [{"row": 1, "col": 1, "turnsRemaining": 1}]}, "missing enemyType"),
        ({"blocks": [{"row": 1, "col": 1, "type": "wall"}]}, "blocks[0].type"),
        ({"blocks": [{"row": 1, "col": 1, "type": "program"}]}, "missing programType"),
        ({"blocks": [{"row": 1, "col": 1, "type": "program", "programType": "fly"}]}, "fly"),
        ({"blocks": [{"row": 1, "col": 1, "type": "data", "points": 99, "spawnCount": 1}]},
         "blocks[0].points: 99 is not an integer from 0 to 31"),
        ({"blocks": [{"row": 1, "col": 1, "type": "data", "points": 16}]},
         "blocks[0].points: 16 is not an integer from 0 to 15"),
        ({"blocks": [{"row": 1, "col": 1, "type": "data", "points": 3, "spawnCount": 16}]},
         "blocks[0].spawnCount: 16 is not an integer from 0 to 15"),
        ({"blocks": [{"row": 1, "col": 1, "type": "program", "programType": "row",
                      "spawnCount": 16}]}, "blocks[0].spawnCount: 16"),
        ({"transmissions": [{"row": 1, "col": 1, "turnsRemaining": 100, "enemyType": "virus"}]},
         "transmissions[0].turnsRemaining: 100 is not an integer from 0 to 63"),
        ({"player": {"row": 0, "col": 0, "dataSiphons": 9999}}, "player.dataSiphons: 9999"),
        ({"player": {"row": 0, "col": 0, "attackDamage": 9999}}, "player.attackDamage: 9999"),
        ({"resources": [{"row": 1, "col": 9, "credits": 1}]}, "resources[0].col"),
        ({"resources": [{"row": 1, "col": 1, "credits": 8}]},
         "resources[0].credits: 8 is not an integer from 0 to 7"),
        ({"resources": [{"row": 1, "col": 1, "energy": 8}]}, "resources[0].energy: 8"),
        ({"resources": [{"row": 1, "col": 2, "credits": 2}, {"row": 1, "col": 2, "energy": 3}]},
         "resources[1]: row 1 col 2 already has credits"),
        ({"resources": [{"row": 1, "col": 2, "energy": 2}, {"row": 1, "col": 2, "credits": 3}]},
         "resources[1]: row 1 col 2 already has energy"),
    ],
)  # fmt: skip
def test_an_impossible_state_is_refused_with_its_field_and_changes_nothing(
    session: Session, state: Any, named: str
) -> None:
    ask(session, "reset")
    before = ask(session, "getInternalState"), ask(session, "getValidActions")
    if state and "player" not in state:
        state = {"player": {"row": 0, "col": 0}, **state}
    answer = ask(session, "setState", state=state)
    assert list(answer) == ["error"]
    assert named in answer["error"]
    assert (ask(session, "getInternalState"), ask(session, "getValidActions")) == before


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        *[(name.upper(), name) for name in PROGRAMS],
        ("siph_plus", "siph+"), ("siphPlus", "siph+"), ("d_bomb", "d_bom"), ("dbom", "d_bom"),
        ("antiv", "anti-v"), ("anti_v", "anti-v"), ("atkplus", "atk+"), ("atk_plus", "atk+"),
    ],
)  # fmt: skip
def test_a_program_block_may_be_named_in_any_usual_spelling(spelling: str, name: str) -> None:
    block = {"row": 1, "col": 2, "type": "program", "programType": spelling}
    board, _ = read_state({"player": {"row": 0, "col": 0}, "blocks": [block]})
    assert board["cells"][8][:3] == ["P", PROGRAMS.index(name), 2]
