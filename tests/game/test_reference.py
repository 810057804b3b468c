"""The reference does what the canonical game did, so that it can be trusted as an oracle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import reference
from golden import Case

EVERY = 10
TRIES = 3


def some_of(cases: list[Case]) -> list[Case]:
    """Every tenth case, of at least one."""
    assert cases
    return cases[::EVERY]


@pytest.fixture(scope="module")
def certain_cases(cases: list[Case]) -> list[Case]:
    """Every tenth of the cases in which the canonical game always had the same outcome."""
    return some_of([case for case in cases if len(case.get("outcomes", ())) == 1])


def comparable(state: dict[str, Any]) -> dict[str, Any]:
    unordered = ("enemies", "transmissions", "owned")
    depth = min(reference.HISTORY_LIMIT, state["history_depth"])
    lists = {name: sorted(state[name]) for name in unordered}
    return {**state, **lists, "history_depth": depth, "history": None}


def test_the_valid_actions_are_those_of_the_canonical_game(cases: list[Case]) -> None:
    for case in some_of(cases):
        assert reference.valid_actions(case["state"]) == sorted(case["valid"])


def test_the_observation_is_that_of_the_canonical_game(cases: list[Case]) -> None:
    for case in some_of([case for case in cases if "observation" in case]):
        expected = dict(case["observation"])
        observation = [expected.get(index, 0.0) for index in range(1545)]
        assert reference.observe(case["state"]) == pytest.approx(observation, abs=1e-6)


def test_an_action_with_one_outcome_has_that_outcome(certain_cases: list[Case]) -> None:
    for case in certain_cases:
        [(_, expected)] = case["outcomes"]
        for seed in range(TRIES):
            state, reward, ending = reference.step(case["state"], case["action"], Random(seed))
            if expected["won"]:
                assert (state["stage"], reward[1]) == (9, 100)
                state, reward = {**state, "stage": 8}, [reward[0], 64, *reward[2:]]
            assert comparable(state) == comparable(expected["state"])
            assert reward == pytest.approx(expected["reward"], abs=1e-6)
            assert not ending["invalid"]
            for name in ("stage_advanced", "won", "died"):
                assert ending[name] == bool(expected[name])


def test_a_step_does_not_change_its_argument(certain_cases: list[Case]) -> None:
    for case in some_of(certain_cases):
        before = repr(case["state"])
        reference.step(case["state"], case["action"], Random(0))
        assert repr(case["state"]) == before


def test_an_invalid_action_changes_nothing_and_is_reported(certain_cases: list[Case]) -> None:
    for case in some_of(certain_cases):
        [action, *_] = set(range(28)) - set(case["valid"])
        state, reward, ending = reference.step(case["state"], action, Random(0))
        assert comparable(state) == comparable(case["state"])
        assert reward == [0.0] * 15
        assert ending["invalid"]


def test_random_games_keep_their_states_sound() -> None:
    for seed in range(3):
        rng = Random(seed)
        state = reference.new_game(rng)
        while valid := reference.valid_actions(state):
            state, _, ending = reference.step(state, rng.choice(valid), rng)
            assert len(reference.observe(state)) == 1545
            assert len(state["history"]) == state["history_depth"] <= reference.HISTORY_LIMIT
            if ending["won"] or ending["died"] or state["turn"] > 60:
                break
