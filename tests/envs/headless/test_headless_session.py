"""The headless protocol within this process, compared with the game itself, and given nonsense."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hackmatrix import game
from hackmatrix.envs.headless import LONGEST_LINE, Decision, Session, converse
from hackmatrix.envs.headless.states import read_state
from hackmatrix.envs.headless.view import internal_state, observation
from hackmatrix.envs.hosted import describe
from hackmatrix.game import scenario
from hackmatrix.game.programs import Program
from tests.envs import reference_games
from tests.envs.headless.asking import ask, set_state

UNDO = Program.UNDO
SESSIONS = 40
TURNS = 68
RICH_PLAYER = {"row": 2, "col": 3, "credits": 99, "energy": 99, "dataSiphons": 9}
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


def key_of(seed: int) -> np.ndarray:
    """The key of a session with this seed."""
    return np.random.default_rng(seed).integers(1 << 32, size=2, dtype=np.uint32)


# Against the game


@jax.jit
def keys_of_turns(keys: jax.Array) -> jax.Array:
    """Returns a key for each turn of each session, u32[TURNS, SESSIONS, 2]."""
    of_turn = jax.vmap(jax.random.fold_in, (0, None))
    return jax.vmap(of_turn, (None, 0))(keys, np.arange(TURNS))


def test_thousands_of_random_steps_agree_with_the_game_for_the_same_keys() -> None:
    """Every other session begins with the resources for all programs and, as random play would
    seldom acquire them, with all but UNDO, which reaches back further in a session.
    """
    start = {"player": RICH_PLAYER, "ownedPrograms": EVERY_PROGRAM}
    sessions, rng = [Session(seed) for seed in range(SESSIONS)], random.Random(0)
    for session in sessions:
        ask(session, "setState", state=start)
    keys = np.asarray(keys_of_turns(np.stack([key_of(seed) for seed in range(SESSIONS)])))
    games = reference_games.new_games(keys.reshape(-1, 2))  # for each turn, as any may begin one
    board = jax.tree.map(np.asarray, scenario.load(read_state(start)[0]))
    states = jax.tree.map(lambda leaf: np.stack([leaf] * SESSIONS), board)
    restarts = np.arange(SESSIONS) % 2 == 0
    steps = ends = 0
    for turn in range(TURNS):
        masks = reference_games.valid_actions(states)
        valid = [np.flatnonzero(mask).tolist() for mask in masks]
        actions = np.array([rng.choice(each or [0]) for each in valid])
        stepped, outcomes = reference_games.step(keys[turn], states, actions)
        begun = jax.tree.map(lambda leaf, at=turn * SESSIONS: leaf[at : at + SESSIONS], games)
        states = reference_games.chosen(restarts, begun, stepped)
        boards, outcome_of = apart(states), apart(outcomes)
        for number, session in enumerate(sessions):
            assert ask(session, "getValidActions") == {"validActions": valid[number]}
            if restarts[number]:
                answer = ask(session, "reset")
            else:
                answer = ask(session, "step", actionIndex=int(actions[number]))
                expect_result(answer, outcome_of(number))
            described = describe(boards(number))
            expect_observation(answer["observation"], described)
            if turn % 4 == 0 or outcomes.done[number]:  # this takes as long as a step
                assert ask(session, "getInternalState") == internal_state(described)
        restarts = outcomes.done & ~restarts
        steps += int(np.sum(~restarts))
        ends += int(np.sum(restarts))
    assert steps >= 2_500
    assert ends > 20


def apart(batch: Any) -> Callable[[int], Any]:
    """Returns a function that gives a row of a batch, faster than indexing each array for it."""
    leaves, tree = jax.tree.flatten(batch)
    rows = [list(leaf) for leaf in leaves]
    return lambda number: jax.tree.unflatten(tree, [row[number] for row in rows])


def expect_observation(seen: Any, board: dict[str, Any]) -> None:
    """Compares everything but what only the session remembers."""
    expected = observation(board, board["owned"], ())
    assert sorted(seen.pop("ownedPrograms")) == expected.pop("ownedPrograms")
    del seen["cryptogHints"], expected["cryptogHints"]
    assert seen == expected


def expect_result(answer: Any, outcome: game.Outcome) -> None:
    info, parts = answer["info"], outcome.parts
    assert answer["done"] == outcome.done
    assert info.get("stage_complete", False) == outcome.stage_completed
    assert info.get("death", False) == outcome.died
    assert info.get("invalid_action", False) == outcome.invalid
    rewards = {**info["reward_breakdown"], "all": answer["reward"]}
    expected = {**{NAMES[name]: parts[name] for name in NAMES}, "all": outcome.reward}
    assert rewards.keys() == expected.keys()
    off = np.array([rewards[name] - expected[name] for name in expected])
    assert np.abs(off).max() < 1e-4, (rewards, expected)


# Advice


def first_valid(seen: np.ndarray, mask: np.ndarray, turn: int, states: game.State) -> Decision:
    """A player that reads the state of the game, as a planner does."""
    assert seen.shape == (1545,)
    chances = (mask / mask.sum()).tolist() if mask.any() else []
    return Decision(int(mask.argmax()), chances, 100 * float(states.turn[0]) + turn)


def test_advice_is_for_the_current_board_and_does_not_change_the_game() -> None:
    advised, alone = Session(3, first_valid), Session(3)
    advised.warm_up()
    assert ask(advised, "reset") == ask(alone, "reset")
    for turn in range(5):
        advice = ask(advised, "getAdvice")
        valid = ask(advised, "getValidActions")["validActions"]
        assert advice["actionIndex"] == valid[0]
        assert np.flatnonzero(advice["probabilities"]).tolist() == valid
        assert advice["value"] == 101 * turn
        stepped = [ask(each, "step", actionIndex=valid[0]) for each in (advised, alone)]
        assert stepped[0] == stepped[1]


def test_no_advice_is_given_when_no_action_is_valid_or_the_game_is_over() -> None:
    session = Session(3, first_valid)
    walls = [{"row": row, "col": 1 - row, "type": "data"} for row in (0, 1)]
    set_state(session, blocks=walls)
    stuck = {"error": "No action is valid: any step ends the game"}
    assert ask(session, "getAdvice") == stuck
    assert ask(session, "step", actionIndex=0)["done"]
    over = {"error": "The game is over: reset begins the next one"}
    assert ask(session, "getAdvice") == over
    beside = {"type": "virus", "row": 0, "col": 1, "hp": 2}
    set_state(session, player={"row": 0, "col": 0, "hp": 1, "dataSiphons": 1}, enemies=[beside])
    assert "actionIndex" in ask(session, "getAdvice")
    answer = ask(session, "step", actionIndex=4)
    assert answer["info"]["death"]
    assert ask(session, "getValidActions")["validActions"]
    assert ask(session, "getAdvice") == over
    ask(session, "reset")
    assert "actionIndex" in ask(session, "getAdvice")


def test_without_a_policy_there_is_no_advice(session: Session) -> None:
    ask(session, "reset")
    refused = {"error": "There is no policy to ask: start with --policy or --run"}
    assert ask(session, "getAdvice") == refused


# What is refused


@pytest.mark.parametrize("action", ["step", "getValidActions", "getInternalState", "getAdvice"])
def test_before_the_first_game_commands_about_a_game_are_refused(action: str) -> None:
    answer = ask(Session(), action, actionIndex=0)
    assert answer == {"error": "There is no game yet: reset or setState begins one"}


@pytest.mark.parametrize("index", [-1, 28, 10**30, 1.5, "3", [], {}, 1e999, True, False])
def test_an_action_that_does_not_exist_is_refused_and_changes_nothing(
    session: Session, index: Any
) -> None:
    ask(session, "reset")
    before = ask(session, "getInternalState"), ask(session, "getValidActions")
    assert list(ask(session, "step", actionIndex=index)) == ["error"]
    assert (ask(session, "getInternalState"), ask(session, "getValidActions")) == before


@pytest.mark.parametrize("seed", ["x", -1, 1.5, True, [], {}])
def test_an_invalid_seed_is_refused_and_changes_nothing(session: Session, seed: Any) -> None:
    ask(session, "reset")
    before = ask(session, "getInternalState")
    assert ask(session, "reset", seed=seed) == {"error": "Invalid command"}
    assert ask(session, "getInternalState") == before


def test_the_same_seed_begins_the_same_games(session: Session) -> None:
    first = ask(session, "reset", seed=7), ask(session, "reset")
    assert first[0] != first[1]
    assert (ask(session, "reset", seed=7), ask(session, "reset", seed=None)) == first
    assert ask(session, "reset", seed=8) != first[0]


# Nonsense

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["row", "col", "type", "hp", "player", "enemies", "blocks", "turn", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
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
    answered = [json.loads(answer) for answer in answers.getvalue().splitlines()]
    space, error = {"actionSpaceSize": 28}, {"error": "Invalid command"}
    assert answered[0] == space
    assert answered[-2:] == [error, space]
    assert len(answered) == len(texts)
