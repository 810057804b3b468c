"""Evaluations, on an environment whose every number can be worked out by hand."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from hackmatrix.envs.protocol import with_attribute
from hackmatrix.parallel import mesh
from hackmatrix.rl import evaluation as evaluation_module
from hackmatrix.rl.evaluation import Evaluation, Interrupted, curves
from hackmatrix.rl.tally import CUT_OFF, LENGTH, RETURN
from hackmatrix.train.reporting import results
from tests.envs.toy import ACTIONS, Boards, Toy
from tests.envs.toy import LENGTH as STEPS
from tests.rl.rolled import mlp

NETWORK = mlp(Toy(), hidden_dim=8, num_layers=1)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return Evaluation(Toy(), NETWORK, mesh.over(jax.devices()[:2]))


@pytest.fixture(scope="module")
def knowing() -> Any:
    """The parameters that find the wanted action likelier than others, but not by much."""
    params = NETWORK.init(jax.random.key(0))
    hidden = np.zeros((2 * ACTIONS, 8), np.float32)
    hidden[ACTIONS:, :ACTIONS] = np.eye(ACTIONS)
    actor = np.zeros((8, ACTIONS), np.float32)
    actor[:ACTIONS] = np.eye(ACTIONS)
    layers = params["params"]
    return {
        "params": {
            "Dense_0": {"kernel": hidden, "bias": np.zeros(8, np.float32)},
            "actor": {"kernel": actor, "bias": np.zeros(ACTIONS, np.float32)},
            "critic": layers["critic"],
        }
    }


@pytest.fixture
def three_at_once(evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations that are built from now on play three games at a time on a device."""
    monkeypatch.setattr(evaluation_module, "_AT_ONCE", 3)


def test_the_greedy_player_takes_the_likeliest_action(evaluation: Evaluation, knowing: Any) -> None:
    games = evaluation.beside_random(knowing, seed=1, games=40, greedy=True)
    assert games["agent"][RETURN].tolist() == [STEPS] * 40
    assert games["random"][RETURN].mean() < 0.7 * STEPS
    drawn = evaluation.play(knowing, 1, 40)[RETURN].mean()
    assert games["random"][RETURN].mean() < drawn < STEPS


def test_the_likeliest_actions_can_be_seen_beside_those_that_are_drawn(
    evaluation: Evaluation, knowing: Any
) -> None:
    games = evaluation.beside_random(knowing, seed=1, games=40, both=True)
    assert list(games) == ["agent", "agent_greedy", "random"]
    assert games["agent_greedy"][RETURN].tolist() == [STEPS] * 40
    assert games["agent"][RETURN].mean() < STEPS


def test_what_is_measured_of_games_has_a_curve_that_is_declared() -> None:
    tags = [metric.tag for metric in curves(Toy()).metrics]
    assert {"eval/mean_episode_return", "eval/last_wanted", "eval/ended"} <= {*tags}
    assert len(tags) == len({*tags})


def test_games_are_counted_to_their_end_only(evaluation: Evaluation, knowing: Any) -> None:
    games = evaluation.play(knowing, 1, 5)
    assert games[LENGTH].tolist() == [STEPS] * 5
    assert games["actions"].sum(1).tolist() == [STEPS] * 5
    assert games["ended"].all()


def test_games_that_are_cut_off_are_counted(evaluation: Evaluation, knowing: Any) -> None:
    assert not evaluation.play(knowing, 1, 5)[CUT_OFF].any()
    env = Toy(truncates=True)
    games = Evaluation(env, NETWORK, mesh.over(jax.devices()[:1])).play(knowing, 1, 5)
    assert games[CUT_OFF].all()
    assert not games["ended"].any()
    told = results.summary(games, env)
    (row,) = (line for line in results.table({"agent": told}, env) if "cut off" in line)
    assert row.split()[:4] == ["cut", "off", "(%)", "100.00"]
    assert results.as_json({"agent": told})["agent"][CUT_OFF]["mean"] == 1


def test_games_are_cut_off_after_as_many_actions_as_the_environment_says(knowing: Any) -> None:
    env = with_attribute(Toy(), "most_actions", STEPS - 1)
    games = Evaluation(env, NETWORK, mesh.over(jax.devices()[:1])).play(knowing, 1, 5)
    assert games[LENGTH].tolist() == [STEPS - 1] * 5
    assert not games["ended"].any()


def test_games_are_the_same_however_many_are_played_at_a_time(
    evaluation: Evaluation, knowing: Any, three_at_once: None
) -> None:
    one_after_the_other = Evaluation(Toy(), NETWORK, mesh.over(jax.devices()[:2]))
    few, all_at_once = (each.play(knowing, 1, 40) for each in (one_after_the_other, evaluation))
    assert few.keys() == all_at_once.keys()
    for name, column in few.items():
        np.testing.assert_array_equal(column, all_at_once[name], err_msg=name)


def test_a_game_depends_on_its_seed_and_number_alone(evaluation: Evaluation, knowing: Any) -> None:
    few, many = (evaluation.play(knowing, 1, number)["actions"] for number in (5, 40))
    np.testing.assert_array_equal(few, many[:5])
    assert (evaluation.play(knowing, 2, 40)["actions"] != many).any()


def test_games_stop_as_soon_as_they_are_not_wanted_any_more(
    knowing: Any, three_at_once: None
) -> None:
    answers = iter([True, False])
    devices = mesh.over(jax.devices()[:1])
    few = Evaluation(Toy(), NETWORK, devices, goes_on=lambda: next(answers))
    with pytest.raises(Interrupted):
        few.play(knowing, 1, 4000)
    assert list(answers) == []


def test_it_tells_what_share_of_the_games_is_over(
    evaluation: Evaluation, knowing: Any, three_at_once: None
) -> None:
    few = Evaluation(Toy(), NETWORK, mesh.over(jax.devices()[:2]))
    told: list[float] = []
    few.play(knowing, 1, 40, tell=told.append)
    assert len(told) > 2
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] == 1
    of_three: list[float] = []
    evaluation.beside_random(knowing, 1, 40, both=True, tell=of_three.append)
    assert {1 / 3, 2 / 3, 1} <= {*of_three}


def test_what_is_from_elsewhere_is_traced_once_however_often_it_is_evaluated(knowing: Any) -> None:
    traced = []

    class Elsewhere(Toy):
        def step(self, keys: jax.Array, state: Boards, actions: jax.Array) -> Any:
            traced.append(actions.shape)
            return super().step(keys, state, actions)

    own = Evaluation(Elsewhere(), NETWORK, mesh.over(jax.devices()[:1]))
    own.play(knowing, 1, 3)
    assert traced
    traced.clear()
    own.play(knowing, 2, 3)
    assert not traced
