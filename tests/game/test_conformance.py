"""The checks against golden cases report every wrong game, and never a right one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance import (
    SECOND,
    excess,
    mask_failures,
    observation_failures,
    outcome_failures,
    round_trip_failures,
)
from conformance import comparisons as compare
from golden import SHIPPED, Case, Sample, State, folder, marginals, read_cases


class Echo:
    """A game that returns the data of one case."""

    history_limit = 5

    def __init__(self, case: Case) -> None:
        self.case = deepcopy(case)

    def masks(self, states: Sequence[State]) -> np.ndarray:
        mask = np.zeros((1, 28), bool)
        mask[0, self.case["valid"]] = True
        return mask

    def observations(self, states: Sequence[State]) -> np.ndarray:
        observation = np.zeros((1, 1545), np.float32)
        for index, value in self.case["observation"]:
            observation[0, index] = value
        return observation

    def reloaded(self, states: Sequence[State]) -> list[State]:
        return [self.case["state"]]

    def samples(self, cases: Sequence[Case], times: int) -> Iterator[tuple[int, Sample]]:
        share = times / self.case["n"]
        results = self.case.get("outcomes") or [
            (count, {**result, "state": _with_transmissions(result["state"])})
            for count, result in self.case["advance"]
        ]
        yield 0, [(round(count * share), result) for count, result in results]


def _with_transmissions(state: State) -> State:
    kept = state["kept_transmissions"]
    new = [[0, 0, 1, 0, 0, 0]] * (state["n_transmissions"] - len(kept))
    left_out = ("kept_transmissions", "n_transmissions")
    known = {name: value for name, value in state.items() if name not in left_out}
    return {**known, "transmissions": kept + new, "exit": [0, 0], "cells": []}


def with_marginals(case: Case) -> Case:
    views = marginals(case["outcomes"], Echo.history_limit)
    described = {name: dict(values) for name, values in views.items()}
    return {
        **{name: case[name] for name in ("state", "valid", "action", "n")},
        "marginals": described,
    }


KINDS: dict[str, Callable[[Case], Any]] = {
    "observed": lambda case: "observation" in case and case["state"]["enemies"],
    "uncertain": lambda case: len(case.get("outcomes", [])) in (4, 5, 6),
    "undone": lambda case: case["state"]["history"],
    "advanced": lambda case: (
        "advance" in case and case["advance"][0][1]["state"]["kept_transmissions"]
    ),
    "won": lambda case: any(each[1]["won"] for each in case.get("outcomes", [])),
}


def first(kind: str) -> Case:
    """The first such case. (None is read on import: all processes of the tests import this.)"""
    return next(filter(KINDS[kind], read_cases(SHIPPED)))


def has_another_mask(case: Case) -> None:
    case["valid"].pop()


def has_another_observation(case: Case) -> None:
    case["observation"][3][1] += 1e-5


def observes_something_more(case: Case) -> None:
    case["observation"].pop()


def has_enemies_in_another_order(case: Case) -> None:
    case["state"]["enemies"].append([0, 0, 0, 1, 0, 0, 0, 0])
    case["state"]["enemies"].reverse()


def has_another_snapshot(case: Case) -> None:
    case["state"]["history"][0]["turn"] += 1


def loses_an_outcome(case: Case) -> None:
    lost = case["outcomes"].pop()
    case["outcomes"][0][0] += lost[0]


def has_another_reward(case: Case) -> None:
    case["outcomes"][0][1]["reward"][8] += 0.05


def has_another_cell(case: Case) -> None:
    case["outcomes"][0][1]["state"]["cells"][35][-1]["s"] ^= 1


def has_another_enemy(case: Case) -> None:
    for _, outcome in case["outcomes"]:
        outcome["state"]["enemies"].append([0, 0, 0, 1, 0, 0, 0, 0])


def has_other_frequencies(case: Case) -> None:
    counts = [count for count, _ in case["outcomes"]]
    for outcome in case["outcomes"]:
        outcome[0] = 1
    case["outcomes"][0][0] = sum(counts) - len(counts) + 1


def counts_another_turn(case: Case) -> None:
    case["advance"][0][1]["state"]["turn"] += 1


def loses_a_transmission(case: Case) -> None:
    case["advance"][0][1]["state"]["kept_transmissions"][0][2] += 1


CHECKS = {
    mask_failures: [("observed", has_another_mask)],
    observation_failures: [
        ("observed", has_another_observation),
        ("observed", observes_something_more),
    ],
    round_trip_failures: [
        ("observed", has_enemies_in_another_order),
        ("undone", has_another_snapshot),
    ],
    outcome_failures: [
        ("uncertain", loses_an_outcome),
        ("uncertain", has_another_reward),
        ("uncertain", has_another_cell),
        ("uncertain", has_another_enemy),
        ("uncertain", has_other_frequencies),
        ("advanced", counts_another_turn),
        ("advanced", loses_a_transmission),
    ],
}
WRONG = [(check, *wrong) for check, wrongs in CHECKS.items() for wrong in wrongs]


@pytest.mark.parametrize(
    ("check", "kind", "change"), WRONG, ids=[each[2].__name__ for each in WRONG]
)
def test_a_wrong_game_is_reported(
    check: Callable, kind: str, change: Callable[[Case], None]
) -> None:
    case = first(kind)
    game = Echo(case)
    assert check([case], game) == []
    change(game.case)
    [failure] = check([case], game)
    assert failure.startswith(f"case 0 (action {case['action']}, ")


@pytest.mark.parametrize(
    "change", [loses_an_outcome, has_another_reward, has_another_enemy, has_other_frequencies]
)
def test_a_wrong_game_is_reported_from_marginals_alone(change: Callable[[Case], None]) -> None:
    case = first("uncertain")
    game, wide = Echo(case), with_marginals(case)
    assert outcome_failures([wide], game) == []
    change(game.case)
    assert len(outcome_failures([wide], game)) == 1


def test_an_environment_variable_names_the_folder_of_the_golden_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HACKMATRIX_GOLDEN", raising=False)
    assert folder() == SHIPPED
    monkeypatch.setenv("HACKMATRIX_GOLDEN", "elsewhere")
    assert folder() == Path("elsewhere")


def test_a_failure_names_the_field_and_both_values() -> None:
    case = first("advanced")
    game, turn = Echo(case), case["advance"][0][1]["state"]["turn"]
    counts_another_turn(game.case)
    [failure] = outcome_failures([case], game)
    assert f"state.turn: data {turn}, game {turn + 1}" in failure


def test_victory_follows_the_ruling_and_not_the_data() -> None:
    case = first("won")
    game = Echo(case)
    [failure] = outcome_failures([case], game)
    assert "state.stage: data 9, game 8" in failure
    assert "reward.stage_completion: data 100.0, game 64.0" in failure
    for _, outcome in game.case["outcomes"]:
        if outcome["won"]:
            outcome["state"]["stage"], outcome["reward"][1] = 9, 100
    assert outcome_failures([case], game) == []


def test_a_missing_outcome_counts_only_if_a_larger_sample_lacks_it_too() -> None:
    class Unlucky(Echo):
        def samples(self, cases: Sequence[Case], times: int) -> Iterator[tuple[int, Sample]]:
            for number, sample in super().samples(cases, times):
                yield number, sample if times == SECOND.times else sample[1:]

    case = first("uncertain")
    assert outcome_failures([case], Unlucky(case)) == []


def test_a_small_bias_in_many_cases_is_found() -> None:
    cases = [case for case in read_cases(SHIPPED) if len(case.get("outcomes", [])) == 2]
    random = np.random.default_rng(0)

    def excess_of(bias: float) -> float:
        """The excess where the data has the first outcome this much more often than the games."""
        compared = []
        for case in cases:
            game, n = Echo(case), case["n"]
            share = case["outcomes"][0][0] / n
            first = random.binomial(n, min(1, share + bias))
            drawn = random.binomial(4000, share)
            game.case["n"] = 4000
            game.case["outcomes"] = [
                [drawn, case["outcomes"][0][1]],
                [4000 - drawn, case["outcomes"][1][1]],
            ]
            seen_in_data = deepcopy(case)
            seen_in_data["outcomes"][0][0], seen_in_data["outcomes"][1][0] = first, n - first
            compared += compare([seen_in_data], game, 4000)
        return excess(compared)

    assert abs(excess_of(bias=0)) < 4
    assert excess_of(bias=0.1) > 6
