"""Means over games and their confidence intervals."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hackmatrix import estimates
from hackmatrix.envs import make
from hackmatrix.estimates import Estimate
from hackmatrix.rl.tally import LENGTH, RETURN
from hackmatrix.train.reporting import results
from hackmatrix.train.runs.places import place
from hackmatrix.train.runs.protocol import Unavailable
from tests.bucket_service import Service
from tests.train.reporting.told_metrics import evaluation

GAME = make("hackmatrix")


def games(number: int, wins: int = 0, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 4, (number, 28))
    actions[:, 27] = 0
    return {
        RETURN: rng.normal(3, 2, number).astype(np.float32),
        LENGTH: actions.sum(1).astype(np.float32),
        "stats/completed_stage_1": np.ones(number, np.float32),
        "stats/win_rate": (np.arange(number) < wins).astype(np.float32),
        "ended": np.ones(number, bool),
        "actions": actions,
    }


def contains(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def test_about_95_of_100_intervals_hold_the_truth() -> None:
    summaries = [results.summary(games(60, seed=seed), GAME) for seed in range(400)]
    for tag, truth in ((RETURN, 3.0), ("actions/push", 1 / 27)):
        held = np.mean([contains(each[tag], truth) for each in summaries])
        assert 0.92 < held < 0.98


def test_the_interval_of_a_share_holds_the_truth_even_if_it_is_small() -> None:
    rng = np.random.default_rng(1)
    truth = 0.03
    wins = rng.binomial(200, truth, 400)
    held = [
        contains(results.summary(games(200, count), GAME)["stats/win_rate"], truth)
        for count in wins
    ]
    assert np.mean(held) > 0.92


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.4, 0.6, 0.4, 0.6], (0.5, 0.5 - 0.1837, 0.5 + 0.1837)),  # no draws of 0 or 1
        ([0.9, 1.0, 1.0, 1.0], (0.975, 0.975 - 0.0796, 1.0)),
        ([60.0, 70.0, 70.0, 80.0], (70.0, 70.0 - 13.0, 70.0 + 13.0)),  # not what "%" is for
    ],
)
def test_a_metric_in_percent_may_be_a_share_of_each_game(
    values: list[float], expected: tuple[float, float, float]
) -> None:
    played = {**games(4), "stats/win_rate": np.array(values, np.float32)}
    found = results.summary(played, GAME)["stats/win_rate"]
    assert (found.mean, found.low, found.high) == pytest.approx(expected, rel=0.01)


def test_columns_of_a_table_are_as_wide_as_their_longest_cell() -> None:
    played = {**games(4), RETURN: np.array([-12_345.0, -12_345.0, -23_456.0, -34_567.0])}
    summaries = {"agent": results.summary(played, GAME), "random": results.summary(games(4), GAME)}
    lines = results.table(summaries, GAME)
    assert lines[0].split() == ["agent", "random"]
    assert {len(line) for line in lines if line != "of all actions"} == {len(lines[0])}


@pytest.mark.parametrize(("number", "least"), [(2, 0.92), (3, 0.93), (5, 0.93), (10, 0.93)])
def test_intervals_of_few_games_are_wide_enough_to_hold_the_truth(
    number: int, least: float
) -> None:
    rng = np.random.default_rng(2)
    held = [contains(estimates.mean(rng.normal(3, 2, number)), 3) for _ in range(2000)]
    assert least < np.mean(held) < 0.97


def test_the_interval_of_a_rare_action_holds_the_truth() -> None:
    """Even if it was never taken: one in 15,000 actions is this one, and a game has 60 actions."""
    rng, truth = np.random.default_rng(3), 1 / 15_000
    whole = np.full(256, 60.0)
    held = [
        contains(estimates.ratio(rng.binomial(60, truth, 256).astype(float), whole), truth)
        for _ in range(1000)
    ]
    assert np.mean(held) > 0.9


def test_the_interval_of_an_action_that_was_never_taken_allows_for_later_games() -> None:
    """Games are independent, but the actions of one game are not: one game of 200 has a burst."""
    rng, held = np.random.default_rng(5), []
    for _ in range(1000):
        whole = rng.integers(20, 200, 256).astype(float)
        part = np.where(rng.random(256) < 1 / 200, 0.1 * whole, 0.0)
        if not part.any():
            held.append(contains(estimates.ratio(part, whole), 0.1 / 200))
    assert len(held) > 200
    assert all(held)
    never = estimates.ratio(np.zeros(256), np.full(256, 60.0))
    assert never == estimates.share(0.0, 256)


def test_games_that_are_all_alike_have_no_interval() -> None:
    for alike in (np.full(256, 0.1), np.ones(3, int), np.array([7.0])):
        found = estimates.mean(alike)
        assert math.isnan(found.low)
        assert found.shown() == f"{alike[0]:.2f}"


def test_intervals_of_shares_in_few_games_hold_the_truth() -> None:
    rng, held = np.random.default_rng(4), []
    for _ in range(1000):
        whole = rng.integers(20, 120, 3).astype(float)
        part = rng.binomial(whole.astype(int), 0.25).astype(float)
        held.append(contains(estimates.ratio(part, whole), 0.25))
    assert 0.92 < np.mean(held) < 0.98


def test_an_event_of_no_game_or_of_all_games_still_has_an_interval() -> None:
    summary = results.summary(games(100), GAME)
    never, always = summary["stats/win_rate"], summary["stats/completed_stage_1"]
    assert never.mean == never.low == 0
    assert never.high == pytest.approx(0.037, abs=1e-3)
    assert always.mean == always.high == 1
    assert always.low == pytest.approx(0.963, abs=1e-3)


def test_an_interval_ends_at_the_limits_of_its_metric() -> None:
    """One long game among short ones would make it reach below zero actions."""
    played = games(9)
    played[LENGTH] = np.array([2000.0, *[5.0] * 8])
    played["stats/mean_stage"] = np.array([*[9.0] * 8, 5.0])
    played[RETURN] = np.array([2000.0, *[5.0] * 8])
    summary = results.summary(played, GAME)
    assert summary[LENGTH].low == 0
    assert summary["stats/mean_stage"].high == 9
    assert summary[RETURN].low < 0
    played["actions"] = np.zeros((9, 28), int)
    played["actions"][:, 0] = 10
    played["actions"][0, 5] = 3
    summary = results.summary(played, GAME)
    assert summary["actions/push"].low > 0
    assert summary["actions/up"].high < 1


def test_a_long_game_weighs_more_in_the_shares_of_actions() -> None:
    played = games(2)
    played["actions"] = np.zeros((2, 28), int)
    played["actions"][0, 0], played["actions"][1, 5] = 9, 1
    summary = results.summary(played, GAME)
    assert summary["actions/up"].mean == pytest.approx(0.9)
    assert summary["actions/push"].mean == pytest.approx(0.1)


def test_actions_are_counted_by_kind_too() -> None:
    played = games(2)
    played["actions"] = np.zeros((2, 28), int)
    played["actions"][0, :4], played["actions"][0, 4], played["actions"][1, 5] = 2, 1, 1
    summaries = {"agent": results.summary(played, GAME)}
    assert summaries["agent"]["kinds/moves"].mean == pytest.approx(0.8)
    assert summaries["agent"]["kinds/programs"].mean == pytest.approx(0.1)
    titles = [title for title, _ in results.used(summaries)]
    assert titles[:3] == ["all moves (%)", "all programs (%)", "up (%)"]


def test_the_table_shows_players_side_by_side_and_leaves_out_what_nobody_did() -> None:
    summaries = {
        "agent": results.summary(games(50), GAME),
        "random": results.summary(games(50, seed=1), GAME),
    }
    text = "\n".join(results.table(summaries, GAME))
    titles = {line[:24].strip() for line in text.splitlines()}
    assert {"return", "actions", "completed stage 1 (%)", "won (%)", "push (%)"} <= titles
    assert "hack (%)" not in titles
    assert (
        len({len(line) for line in results.table(summaries, GAME)} - {len("of all actions")}) == 1
    )
    assert text.splitlines()[0].split() == ["agent", "random"]


def test_wide_numbers_are_separated() -> None:
    wide = {"train/mean_episode_return": Estimate(-4e9 / 3, -4e9 / 3, 4e9 / 3)}
    (_, line) = results.table({"agent": wide, "random": wide}, GAME)[:2]
    assert line.split()[1:] == ["-1333333333.33", "(-1333333333.33", "to", "1333333333.33)"] * 2


def test_the_json_of_a_single_game_is_strict() -> None:
    content: Any = results.as_json({"agent": results.summary(games(1), GAME)})
    assert json.loads(json.dumps(content, allow_nan=False))["agent"][RETURN]["low"] is None


def test_the_level_of_a_random_player_is_compared_with_games_of_its_own_length() -> None:
    random = {RETURN: {"mean": 2.0}, "actions/up": {"mean": 0.5}}
    assert results.levels(random, are_cut=True) == {"eval/mean_episode_return": 2.0}
    assert results.levels(random, are_cut=False)[RETURN] == 2.0


def test_a_single_game_is_not_called_games() -> None:
    assert results.describe_games({"episodes": 1, "seed": 3}) == "1 game of seed 3"
    description = results.describe_games({"episodes": 1000, "seed": 3, "step": 7})
    assert description == "1,000 games of seed 3 at step 7"


def test_actions_of_other_environments_are_numbered() -> None:
    cartpole = make("gymnax:CartPole-v1")
    played = {RETURN: np.ones(3), "ended": np.ones(3, bool), "actions": np.full((3, 2), 4)}
    found = {"agent": results.summary(played, cartpole)}
    assert [name for name in found["agent"] if name.startswith("actions/")] == [
        "actions/action 0",
        "actions/action 1",
    ]
    titles = [line[:24].strip() for line in results.table(found, cartpole)]
    assert titles[-3:] == ["of all actions", "action 0 (%)", "action 1 (%)"]


def test_estimates_are_restored_from_json() -> None:
    """Entries other than those of the players are no estimates."""
    summaries = {
        "agent": results.summary(games(9), GAME),
        "random": results.summary(games(1), GAME),
    }
    saved = json.loads(json.dumps({"step": 7, **results.as_json(summaries)}))
    again = results.from_json(saved)
    assert again["agent"] == summaries["agent"]
    assert again.keys() == summaries.keys()
    assert np.isnan(again["random"][RETURN].low)


@pytest.mark.parametrize(
    "damage",
    [
        {"step": math.inf}, {"step": None}, {"step": -1}, {"step": 2.5}, {"episodes": None},
        {"episodes": 10**400}, {"seed": "0"}, {"seed": True}, {"agent": None}, {"agent": {}},
        {"agent": {RETURN: 1.0}}, {"agent": {RETURN: {"mean": 1.0}}}, {"random": {}},
        {"random": {LENGTH: {"mean": 1.0, "low": 1.0, "high": 1.0}}},
        {"agent": {RETURN: {"mean": math.nan, "low": 1.0, "high": 1.0}}},
        {"agent": {RETURN: {"mean": 10**400, "low": 1.0, "high": 1.0}}},
        {"agent": {RETURN: {"mean": "1.0", "low": 1.0, "high": 1.0}}},
    ],
)  # fmt: skip
def test_an_evaluation_that_is_not_whole_counts_as_missing(
    tmp_path: Path, damage: dict[str, Any]
) -> None:
    file = tmp_path / "evaluation.json"
    assert results.read(file) is None
    file.write_text(evaluation(4096))
    assert results.read(file) == json.loads(evaluation(4096))
    file.write_text(evaluation(4096, **damage))
    assert results.read(file) is None


def test_an_evaluation_that_is_no_json_or_no_file_counts_as_missing(tmp_path: Path) -> None:
    file = tmp_path / "evaluation.json"
    for content in (b"[" * 100_000, b"null", b"\xff", b""):
        file.write_bytes(content)
        assert results.read(file) is None
    (tmp_path / "loop").symlink_to("loop")
    for other in (tmp_path, tmp_path / "loop"):
        assert results.read(other) is None


@pytest.mark.usefixtures("retries_without_waiting")
def test_an_evaluation_in_a_bucket_that_is_away_does_not_count_as_missing(
    bucket_address: str, bucket_service: Service
) -> None:
    with bucket_service.failing("refuse"), pytest.raises(Unavailable):
        results.read(place(bucket_address) / "evaluation.json")


def test_the_best_game_came_furthest_and_has_the_highest_return_of_those() -> None:
    played = games(20)
    played[RETURN][13] = 99
    assert results.best_game(played, GAME) == 13
    played["stats/mean_stage"] = np.ones(20)
    played["stats/mean_stage"][[4, 5]] = 3
    played[RETURN][[4, 5]] = 1, 2
    assert results.best_game(played, GAME) == 5
    assert results.best_game(played, make("gymnax:CartPole-v1")) == 13
