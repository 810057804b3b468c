"""The headless protocol within this process: against the game itself, and against nonsense."""

from __future__ import annotations

import io
import itertools
import json
import random
from typing import Any

import jax
import numpy as np
import pytest
import reference_games
from hypothesis import given, settings
from hypothesis import strategies as st

from hackmatrix import game
from hackmatrix.envs.headless import LONGEST_LINE, Session, converse
from hackmatrix.envs.headless_state import read_state
from hackmatrix.envs.headless_view import internal_state, observation
from hackmatrix.envs.hosted import describe
from hackmatrix.game import scenario
from hackmatrix.game.programs import PROGRAMS, Program

UNDO = Program.UNDO
SESSIONS = 40
TURNS = 265
MEANS = {"row": 2, "col": 3, "credits": 99, "energy": 99, "dataSiphons": 9}
NAMES = dict(
    zip(
        [name for name in game.PARTS if name != "step_penalty"],
        ["stage", "score", "kills", "dataSiphon", "distance", "victory", "death", "resourceGain",
         "resourceHolding", "damagePenalty", "hpRecovery", "siphonQuality", "programWaste",
         "siphonDeathPenalty"],
        strict=True,
    )
)  # fmt: skip
EVERY_PROGRAM = [action for action in range(5, 28) if action != UNDO]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(1)


def ask(session: Session, action: str, **others: Any) -> Any:
    return json.loads(session.answer(json.dumps({"action": action, **others}).encode()))


def set_state(session: Session, **state: Any) -> Any:
    return ask(session, "setState", state={"player": {"row": 0, "col": 0}, **state})


def key_of(seed: int) -> np.ndarray:
    """The key of a session with this seed."""
    return np.random.default_rng(seed).integers(1 << 32, size=2, dtype=np.uint32)


# Against the game


@jax.jit
def keys_of_turn(keys: jax.Array, turn: int) -> jax.Array:
    return jax.vmap(jax.random.fold_in, (0, None))(keys, turn)


def test_ten_thousand_random_steps_agree_with_the_game_for_the_same_keys() -> None:
    """Every other session begins with all programs (but UNDO, which reaches back further here) and
    the means to run them: random play would seldom get there.
    """
    start = {"player": MEANS, "ownedPrograms": EVERY_PROGRAM}
    sessions, luck = [Session(seed) for seed in range(SESSIONS)], random.Random(0)
    for session in sessions:
        ask(session, "setState", state=start)
    keys = np.stack([key_of(seed) for seed in range(SESSIONS)])
    board = jax.tree.map(np.asarray, scenario.load(read_state(start)[0]))
    states = jax.tree.map(lambda leaf: np.stack([leaf] * SESSIONS), board)
    begins = np.arange(SESSIONS) % 2 == 0
    steps = ends = 0
    for turn in range(TURNS):
        masks = reference_games.valid_actions(states, SESSIONS)
        valid = [np.flatnonzero(mask).tolist() for mask in masks]
        actions = np.array([luck.choice(each or [0]) for each in valid])
        each = np.asarray(keys_of_turn(keys, turn))
        stepped, outcomes = reference_games.step(each, states, actions)
        states = reference_games.chosen(begins, reference_games.new_games(each), stepped)
        for number, session in enumerate(sessions):
            assert ask(session, "getValidActions") == {"validActions": valid[number]}
            if begins[number]:
                told = ask(session, "reset")
            else:
                told = ask(session, "step", actionIndex=int(actions[number]))
                expect_result(told, row(outcomes, number))
            described = describe(row(states, number))
            expect_observation(told["observation"], described)
            assert ask(session, "getInternalState") == internal_state(described)
        begins = outcomes.done & ~begins
        steps += int(np.sum(~begins))
        ends += int(np.sum(begins))
    assert steps >= 10_000
    assert ends > 50


def row(batch: Any, number: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[number], batch)


def expect_observation(told: Any, board: dict[str, Any]) -> None:
    """All of it but what only the session remembers."""
    seen = observation(board, board["owned"], ())
    assert sorted(told.pop("ownedPrograms")) == seen.pop("ownedPrograms")
    del told["cryptogHints"], seen["cryptogHints"]
    assert told == seen


def expect_result(told: Any, outcome: game.Outcome) -> None:
    info, parts = told["info"], outcome.parts
    assert told["reward"] == pytest.approx(outcome.reward, abs=1e-4)
    assert told["done"] == outcome.done
    assert info.get("stage_complete", False) == outcome.stage_completed
    assert info.get("death", False) == outcome.died
    assert info.get("invalid_action", False) == outcome.invalid
    expected = {NAMES[name]: float(parts[name]) for name in NAMES}
    assert info["reward_breakdown"] == pytest.approx(expected, abs=1e-4)


# What the state of the game does not hold


def test_undo_reaches_back_to_the_first_turn(session: Session) -> None:
    seen = [set_state(session, ownedPrograms=[UNDO], player={"row": 0, "col": 0, "credits": 1})]
    for action in itertools.islice(itertools.cycle([0, 0, 0, 1, 3, 1, 1]), 20):
        seen.append(ask(session, "step", actionIndex=action))
        assert not seen[-1]["done"]
    for before in reversed(seen[1:]):
        assert ask(session, "step", actionIndex=UNDO)["observation"] == before["observation"]
    assert UNDO not in ask(session, "getValidActions")["validActions"]


def test_programs_are_listed_in_the_order_of_acquisition(session: Session) -> None:
    blocks = [
        {"row": 1, "col": 0, "type": "program", "programType": "push", "spawnCount": 0},
        {"row": 5, "col": 0, "type": "program", "programType": "wait", "spawnCount": 0},
        {"row": 5, "col": 2, "type": "program", "programType": "row", "spawnCount": 0},
    ]
    player = {"row": 0, "col": 0, "dataSiphons": 3, "credits": 20, "energy": 20}
    set_state(session, player=player, blocks=blocks, ownedPrograms=[24, 14, 14, 9])
    told = ask(session, "step", actionIndex=4)["observation"]
    assert told["ownedPrograms"] == [24, 14, 9, 5]
    told = ask(session, "step", actionIndex=UNDO)["observation"]
    assert told["ownedPrograms"] == [24, 14, 9, 5]  # the snapshot is of after the siphon


def test_a_hidden_cryptog_is_hinted_at_where_it_was_last_seen(session: Session) -> None:
    cryptog = {"type": "cryptog", "row": 4, "col": 2, "hp": 2}
    told = set_state(session, player={"row": 2, "col": 2}, enemies=[cryptog])["observation"]
    assert told["cryptogHints"] == []
    # It comes nearer by one row while the player leaves its column.
    told = ask(session, "step", actionIndex=3)["observation"]
    assert told["cryptogHints"] == [{"row": 4, "col": 2}]
    assert all("enemy" not in cell for row in told["cells"] for cell in row)
    assert ask(session, "getInternalState")["enemies"][0]["row"] == 3


def test_hints_stay_with_their_cryptogs_when_another_dies(session: Session) -> None:
    shot = {"type": "virus", "row": 0, "col": 3, "hp": 1}
    hidden = {"type": "cryptog", "row": 5, "col": 5, "hp": 2}
    trapped = [{"row": row, "col": col, "type": "data"} for row, col in ((5, 4), (4, 5))]
    told = set_state(session, enemies=[shot, hidden], blocks=trapped)
    told = ask(session, "step", actionIndex=3)
    assert told["info"]["reward_breakdown"]["kills"] == 0.3
    assert told["observation"]["cryptogHints"] == [{"row": 5, "col": 5}]


# What a client sets


def test_a_client_may_put_up_to_seven_credits_or_energy_into_a_cell(session: Session) -> None:
    player = {"row": 2, "col": 2, "dataSiphons": 1}
    resources = [{"row": 2, "col": 3, "credits": 5}, {"row": 1, "col": 2, "energy": 7}]
    seen = set_state(session, player=player, resources=resources)["observation"]
    assert seen["cells"][2][3]["credits"] == 5
    assert seen["cells"][1][2]["energy"] == 7
    told = ask(session, "step", actionIndex=4)
    assert (told["observation"]["credits"], told["observation"]["energy"]) == (5, 7)
    assert told["info"]["reward_breakdown"] == dict.fromkeys(NAMES.values(), 0) | {
        "resourceGain": 0.6
    }
    assert told["reward"] == 0.59
    left = [cell for row in told["observation"]["cells"] for cell in row]
    assert not any("credits" in cell or "energy" in cell for cell in left)


def test_of_two_resources_in_a_cell_the_credits_count(session: Session) -> None:
    both = {"row": 0, "col": 1, "credits": 5, "energy": 9}
    cell = set_state(session, resources=[both])["observation"]["cells"][0][1]
    assert (cell["credits"], "energy" in cell) == (5, False)


# What is refused


@pytest.mark.parametrize("action", ["step", "getValidActions", "getInternalState"])
def test_before_the_first_game_there_is_nothing_to_tell(action: str) -> None:
    told = ask(Session(), action, actionIndex=0)
    assert told == {"error": "There is no game yet: reset or setState begins one"}


@pytest.mark.parametrize("index", [-1, 28, 10**30, 1.5, "3", [], {}, 1e999])
def test_an_action_that_there_is_not_is_refused_and_changes_nothing(
    session: Session, index: Any
) -> None:
    ask(session, "reset")
    before = ask(session, "getInternalState"), ask(session, "getValidActions")
    assert list(ask(session, "step", actionIndex=index)) == ["error"]
    assert (ask(session, "getInternalState"), ask(session, "getValidActions")) == before


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ({"player": {"row": 6, "col": 0}}, "player.row"),
        ({"player": {"row": 0, "col": -1}}, "player.col"),
        ({"player": {"row": 0}}, "lacks col"),
        ({"player": {"row": 0, "col": 0, "hp": 4}}, "player.hp"),
        ({"player": "me"}, "player"),
        ({}, "lacks player"),
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
        ({"transmissions": [{"row": 1, "col": 1, "turnsRemaining": 1}]}, "lacks enemyType"),
        ({"blocks": [{"row": 1, "col": 1, "type": "wall"}]}, "blocks[0].type"),
        ({"blocks": [{"row": 1, "col": 1, "type": "program"}]}, "lacks programType"),
        ({"blocks": [{"row": 1, "col": 1, "type": "program", "programType": "fly"}]}, "fly"),
        ({"blocks": [{"row": 1, "col": 1, "type": "data", "points": 99}]}, "points"),
        ({"resources": [{"row": 1, "col": 9, "credits": 1}]}, "resources[0].col"),
        ({"resources": [{"row": 1, "col": 1, "credits": 8}]},
         "resources[0].credits: 8 is not an integer from 0 to 7"),
        ({"resources": [{"row": 1, "col": 1, "energy": 8}]}, "resources[0].energy: 8"),
    ],
)  # fmt: skip
def test_a_state_that_cannot_be_is_refused_by_name_and_changes_nothing(
    session: Session, state: Any, named: str
) -> None:
    ask(session, "reset")
    before = ask(session, "getInternalState"), ask(session, "getValidActions")
    if state and "player" not in state:
        state = {"player": {"row": 0, "col": 0}, **state}
    told = ask(session, "setState", state=state)
    assert list(told) == ["error"]
    assert named in told["error"]
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


# Nonsense

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["row", "col", "type", "hp", "player", "enemies", "blocks", "turn", "x"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
names = st.sampled_from(["step", "setState", "getValidActions", "getInternalState", "fly", ""])
commands = st.fixed_dictionaries(
    {"action": names | json_values}, optional={"actionIndex": json_values, "state": json_values}
).map(lambda command: json.dumps(command).encode())
lines = (
    st.binary(max_size=60)
    | commands
    | st.tuples(commands, st.integers(0, 40)).map(lambda cut: cut[0][: cut[1]])
)


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(line=lines)
def test_whatever_a_line_says_its_answer_is_one_json_object(session: Session, line: bytes) -> None:
    answer = session.answer(line)
    assert b"\n" not in answer
    told = json.loads(answer)
    assert isinstance(told, dict)
    assert len(told.get("error", "")) < 400


def test_a_line_that_is_too_long_is_answered_once_however_long_it_is(session: Session) -> None:
    good = b'{"action":"getActionSpace"}'
    padded = good + b" " * (LONGEST_LINE - len(good) - 1)
    texts = [padded, padded + b" ", padded + b"  ", good + b" " * (5 * LONGEST_LINE), b"", good]
    answers = io.BytesIO()
    converse(session, io.BytesIO(b"\n".join(texts)), answers)
    told = [json.loads(answer) for answer in answers.getvalue().splitlines()]
    space, error = {"actionSpaceSize": 28}, {"error": "Invalid command"}
    assert told[0] == space
    assert told[-2:] == [error, space]
    assert len(told) == len(texts)
