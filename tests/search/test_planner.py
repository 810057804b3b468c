"""Looking ahead in play, with what is hidden drawn anew."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.parallel import mesh
from hackmatrix.rl.draws import key_of_each, seed_key
from hackmatrix.rl.evaluation import Evaluation
from hackmatrix.rl.signal import Signal
from hackmatrix.rl.tally import RETURN
from hackmatrix.search.planner import Planner
from hackmatrix.search.tree import Found
from hackmatrix.train.policies.player import Player
from hackmatrix.train.policies.policy import Policy
from tests.envs.toy import LENGTH, Boards, Toy
from tests.rl.rolled import mlp
from tests.search.open import Open, Veiled

NETWORK = mlp(Toy(), hidden_dim=8, num_layers=1)
SIGNAL = Signal(gamma=0.1, potential_shaping=False)
BOARDS = 32


@pytest.fixture(scope="module")
def params() -> Any:
    """Of a network that knows nothing yet."""
    return NETWORK.init(jax.random.key(0))


@pytest.fixture(scope="module")
def boards() -> Boards:
    return Toy().reset(jax.random.key_data(jax.random.split(jax.random.key(1), BOARDS)))


def planned(env: Toy, params: Any, boards: Boards, simulations: int) -> Found:
    keys = key_of_each(seed_key(2), jnp.arange(BOARDS, dtype=jnp.uint32))
    found: Found = jax.jit(Planner(env, NETWORK, SIGNAL, simulations))(params, keys, boards)
    return found


def test_a_plan_is_the_same_whatever_is_hidden(params: Any, boards: Boards) -> None:
    other = boards.replace(wanted=jnp.argmax(boards.mask, -1).astype(jnp.int32))
    assert (np.asarray(other.wanted) != np.asarray(boards.wanted)).any()
    looks_the_same = [planned(Veiled(), params, each, 32) for each in (boards, other)]
    for one, two in zip(*map(jax.tree.leaves, looks_the_same), strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_more_worlds_are_imagined_the_surer_it_is_that_nothing_can_be_known(
    params: Any, boards: Boards
) -> None:
    several = np.asarray(boards.mask).sum(-1) > 1

    def surest(simulations: int) -> float:
        policy = np.asarray(planned(Veiled(), params, boards, simulations).policy)
        return float(policy[several].max(-1).mean())

    assert surest(8 * 32) < surest(32) - 0.1


@pytest.mark.parametrize("devices", [1, 4])
def test_looking_ahead_wins_every_game_on_any_mesh(params: Any, devices: int) -> None:
    planner = Planner(Open(), NETWORK, SIGNAL, 32)
    played = Evaluation(
        Open(), NETWORK, mesh.over(jax.devices()[:devices]), planner.look_ahead
    ).beside_random(params, seed=1, games=16)
    assert played["agent"][RETURN].tolist() == [LENGTH] * 16
    assert played["random"][RETURN].mean() < 0.7 * LENGTH


def test_a_player_that_looks_ahead_shows_what_it_found(params: Any, boards: Boards) -> None:
    env = Open()
    policy = Policy(env, NETWORK, params, "a test", 0, SIGNAL)
    player = Player(policy, seed=3, number=0, planner=Planner(env, NETWORK, SIGNAL, 32))
    one = jax.tree.map(lambda leaf: leaf[:1], boards)
    nothing = np.zeros(0, np.float32)
    action, probabilities, value = player.choose(nothing, np.asarray(one.mask[0]), 0, one)
    assert action == int(one.wanted[0]) == int(np.argmax(probabilities))
    assert value == pytest.approx(1, abs=0.5)


def test_an_environment_that_does_not_say_what_is_hidden_is_not_planned_on(
    params: Any, boards: Boards
) -> None:
    assert not Toy().tells_what_is_hidden
    assert Open().tells_what_is_hidden
    with pytest.raises(NotImplementedError, match="toy does not say what is hidden"):
        planned(Toy(), params, boards, 8)
