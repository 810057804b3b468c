"""Evaluations on the toy environment, whose numbers can all be computed by hand."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from hackmatrix.envs import make
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
def informed_params() -> Any:
    """Parameters that make the wanted action likelier than others, but not by much."""
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


def test_the_greedy_player_takes_the_likeliest_action(
    evaluation: Evaluation, informed_params: Any
) -> None:
    games = evaluation.beside_random(informed_params, seed=1, games=40, greedy=True)
    assert games["agent"][RETURN].tolist() == [STEPS] * 40
    assert games["random"][RETURN].mean() < 0.7 * STEPS
    drawn = evaluation.play(informed_params, 1, 40)[RETURN].mean()
    assert games["random"][RETURN].mean() < drawn < STEPS


def test_greedy_games_can_be_played_beside_those_with_drawn_actions(
    evaluation: Evaluation, informed_params: Any
) -> None:
    games = evaluation.beside_random(informed_params, seed=1, games=40, both=True)
    assert list(games) == ["agent", "agent_greedy", "random"]
    assert games["agent_greedy"][RETURN].tolist() == [STEPS] * 40
    assert games["agent"][RETURN].mean() < STEPS


def test_the_curves_of_evaluations_are_declared_under_unique_tags() -> None:
    tags = [metric.tag for metric in curves(Toy()).metrics]
    assert {"eval/mean_episode_return", "eval/last_wanted", "eval/ended"} <= {*tags}
    assert len(tags) == len({*tags})


def test_games_are_counted_only_up_to_their_end(
    evaluation: Evaluation, informed_params: Any
) -> None:
    games = evaluation.play(informed_params, 1, 5)
    assert games[LENGTH].tolist() == [STEPS] * 5
    assert games["actions"].sum(1).tolist() == [STEPS] * 5
    assert games["ended"].all()


def test_games_that_are_cut_off_are_counted(evaluation: Evaluation, informed_params: Any) -> None:
    assert not evaluation.play(informed_params, 1, 5)[CUT_OFF].any()
    env = Toy(truncates=True)
    games = Evaluation(env, NETWORK, mesh.over(jax.devices()[:1])).play(informed_params, 1, 5)
    assert games[CUT_OFF].all()
    assert not games["ended"].any()
    summary = results.summary(games, env)
    (row,) = (line for line in results.table({"agent": summary}, env) if "cut off" in line)
    assert row.split()[:4] == ["cut", "off", "(%)", "100.00"]
    assert results.as_json({"agent": summary})["agent"][CUT_OFF]["mean"] == 1


def test_games_of_gymnax_are_not_cut_off_before_a_limit_of_their_own() -> None:
    assert make("gymnax:Freeway-MinAtar").most_actions == 2500


def test_games_are_cut_off_at_the_most_actions_that_the_environment_allows(
    informed_params: Any,
) -> None:
    env = with_attribute(Toy(), "most_actions", STEPS - 1)
    games = Evaluation(env, NETWORK, mesh.over(jax.devices()[:1])).play(informed_params, 1, 5)
    assert games[LENGTH].tolist() == [STEPS - 1] * 5
    assert not games["ended"].any()


def test_games_are_the_same_however_many_are_played_at_a_time(
    evaluation: Evaluation, informed_params: Any, three_at_once: None
) -> None:
    by_threes = Evaluation(Toy(), NETWORK, mesh.over(jax.devices()[:2]))
    few, all_at_once = (each.play(informed_params, 1, 40) for each in (by_threes, evaluation))
    assert few.keys() == all_at_once.keys()
    for name, column in few.items():
        np.testing.assert_array_equal(column, all_at_once[name], err_msg=name)


def test_a_game_depends_on_its_seed_and_number_alone(
    evaluation: Evaluation, informed_params: Any
) -> None:
    few, many = (evaluation.play(informed_params, 1, number)["actions"] for number in (5, 40))
    np.testing.assert_array_equal(few, many[:5])
    assert (evaluation.play(informed_params, 2, 40)["actions"] != many).any()


def test_an_evaluation_is_interrupted_as_soon_as_goes_on_returns_false(
    informed_params: Any, three_at_once: None
) -> None:
    answers = iter([True, False])
    devices = mesh.over(jax.devices()[:1])
    few = Evaluation(Toy(), NETWORK, devices, goes_on=lambda: next(answers))
    with pytest.raises(Interrupted):
        few.play(informed_params, 1, 4000)
    assert list(answers) == []


def test_progress_is_reported_as_the_fraction_of_games_that_are_over(
    evaluation: Evaluation, informed_params: Any, three_at_once: None
) -> None:
    few = Evaluation(Toy(), NETWORK, mesh.over(jax.devices()[:2]))
    shares: list[float] = []
    few.play(informed_params, 1, 40, tell=shares.append)
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] == 1
    shares_of_three_players: list[float] = []
    evaluation.beside_random(informed_params, 1, 40, both=True, tell=shares_of_three_players.append)
    assert {1 / 3, 2 / 3, 1} <= {*shares_of_three_players}


def test_an_outside_environment_is_traced_once_for_all_evaluations(informed_params: Any) -> None:
    traced = []

    class Outside(Toy):
        def step(self, keys: jax.Array, state: Boards, actions: jax.Array) -> Any:
            traced.append(actions.shape)
            return super().step(keys, state, actions)

    own = Evaluation(Outside(), NETWORK, mesh.over(jax.devices()[:1]))
    own.play(informed_params, 1, 3)
    assert traced
    traced.clear()
    own.play(informed_params, 2, 3)
    assert not traced
