"""The game does what the canonical game did, in every recorded case (see golden/README.md)."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from conformance import (
    FIRST,
    Comparison,
    comparisons,
    excess,
    mask_failures,
    observation_failures,
    outcome_failures,
    round_trip_failures,
)
from golden import REWARD_PARTS, Case
from subject import BATCH, JaxGame

from hackmatrix import game
from tests.compiled_game import rows

SHOWN = 20
STANDARD_ERRORS = 5


@pytest.fixture(scope="module")
def sampled(cases: list[Case], subject: JaxGame) -> list[Comparison]:
    return comparisons(cases, subject, FIRST.times)


def test_the_valid_actions_are_those_of_the_canonical_game(
    cases: list[Case], subject: JaxGame
) -> None:
    expect_none(mask_failures(cases, subject))


def test_the_observation_is_that_of_the_canonical_game(cases: list[Case], subject: JaxGame) -> None:
    expect_none(observation_failures(cases, subject))


def test_a_state_that_is_loaded_and_dumped_is_the_same(cases: list[Case], subject: JaxGame) -> None:
    expect_none(round_trip_failures(cases, subject))


def test_every_action_has_the_outcomes_of_the_canonical_game_and_no_others(
    cases: list[Case], subject: JaxGame, sampled: list[Comparison]
) -> None:
    expect_none(outcome_failures(cases, subject, sampled))


def test_outcomes_are_as_frequent_as_in_the_canonical_game(sampled: list[Comparison]) -> None:
    assert abs(excess(sampled)) < STANDARD_ERRORS


def test_a_valid_action_is_rewarded_with_the_sum_of_the_parts_and_ends_only_by_victory_or_death(
    cases: list[Case], subject: JaxGame
) -> None:
    boards = subject.load([case["state"] for case in cases])
    actions = np.array([case["action"] for case in cases])
    for numbers in batches_of(len(cases)):
        _, outcome = subject.step(rows(boards, numbers), actions[numbers])
        assert set(outcome.parts) == set(REWARD_PARTS)
        np.testing.assert_allclose(
            outcome.reward, sum(outcome.parts.values()), rtol=1e-6, atol=1e-5
        )
        assert not outcome.invalid.any()
        np.testing.assert_array_equal(outcome.done, outcome.won | outcome.died)


def test_an_invalid_action_changes_nothing_and_ends_the_game_without_reward(
    cases: list[Case], subject: JaxGame
) -> None:
    boards = subject.load([case["state"] for case in cases])
    invalid = [
        (number, action)
        for number, case in enumerate(cases)
        for action in set(range(game.ACTIONS)).difference(case["valid"])
    ]
    board_of, action_of = np.array(invalid).T
    for numbers in batches_of(len(invalid)):
        before = rows(boards, board_of[numbers])
        after, outcome = subject.step(before, action_of[numbers])
        jax.tree.map(np.testing.assert_array_equal, after, before)
        assert outcome.invalid.all()
        assert outcome.done.all()
        assert not (outcome.won | outcome.died | outcome.stage_completed).any()
        assert not any(reward.any() for reward in [outcome.reward, *outcome.parts.values()])


def batches_of(number: int) -> list[np.ndarray]:
    """The numbers below this one in batches of BATCH; the last is filled up with the first ones."""
    return list(np.resize(np.arange(number), (-(-number // BATCH), BATCH)))


def expect_none(failures: list[str]) -> None:
    if failures:
        shown = "\n".join(failures[:SHOWN])
        pytest.fail(f"{len(failures)} failures, the first ones:\n{shown}", pytrace=False)
