"""Means of games and their intervals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from hackmatrix.rl.tally import LENGTH, RETURN
from hackmatrix.train import results


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


def contains(estimate: results.Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def test_about_95_of_100_intervals_hold_the_truth() -> None:
    summaries = [results.summary(games(60, seed=seed)) for seed in range(400)]
    for tag, truth in ((RETURN, 3.0), ("actions/push", 1 / 27)):
        held = np.mean([contains(each[tag], truth) for each in summaries])
        assert 0.92 < held < 0.98


def test_the_interval_of_a_share_holds_the_truth_also_where_it_is_rare() -> None:
    rng = np.random.default_rng(1)
    truth = 0.03
    wins = rng.binomial(200, truth, 400)
    held = [contains(results.summary(games(200, count))["stats/win_rate"], truth) for count in wins]
    assert np.mean(held) > 0.92


def test_what_never_happened_may_yet_happen() -> None:
    summary = results.summary(games(100))
    never, always = summary["stats/win_rate"], summary["stats/completed_stage_1"]
    assert never.mean == never.low == 0
    assert never.high == pytest.approx(0.037, abs=1e-3)
    assert always.mean == always.high == 1
    assert always.low == pytest.approx(0.963, abs=1e-3)


def test_a_long_game_weighs_more_in_the_shares_of_actions() -> None:
    played = games(2)
    played["actions"] = np.zeros((2, 28), int)
    played["actions"][0, 0], played["actions"][1, 5] = 9, 1
    summary = results.summary(played)
    assert summary["actions/up"].mean == pytest.approx(0.9)
    assert summary["actions/push"].mean == pytest.approx(0.1)


def test_the_table_shows_players_side_by_side_and_leaves_out_what_nobody_did() -> None:
    summaries = {"agent": results.summary(games(50)), "random": results.summary(games(50, seed=1))}
    text = "\n".join(results.table(summaries))
    titles = {line[:24].strip() for line in text.splitlines()}
    assert {"return", "actions", "completed stage 1 (%)", "won (%)", "push (%)"} <= titles
    assert "hack (%)" not in titles
    assert len({len(line) for line in results.table(summaries)} - {len("of all actions")}) == 1
    assert text.splitlines()[0].split() == ["agent", "random"]


def test_the_json_of_a_single_game_is_strict() -> None:
    told: Any = results.as_json({"agent": results.summary(games(1))})
    assert json.loads(json.dumps(told, allow_nan=False))["agent"][RETURN]["low"] is None


def test_actions_of_other_environments_are_numbered() -> None:
    assert results.action_names(2) == ["action 0", "action 1"]
    assert results.action_names(28)[3:6] == ["right", "siphon", "push"]


def test_the_best_game_is_named_by_its_number() -> None:
    played = games(20)
    played[RETURN][13] = 99
    assert results.best_game(played) == 13
