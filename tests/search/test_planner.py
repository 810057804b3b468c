"""Looking ahead, on an environment whose every number can be worked out by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.envs import Environment
from hackmatrix.parallel import mesh
from hackmatrix.rl.draws import key_of_each, seed_key
from hackmatrix.rl.evaluation import Evaluation
from hackmatrix.rl.tally import RETURN
from hackmatrix.search.planner import Plan, Planner
from tests.envs.toy import LENGTH, Boards, Toy
from tests.rl.rolled import mlp

NETWORK = mlp(Toy(), hidden_dim=8, num_layers=1)
BOARDS, TRIES = 32, 24


class Veiled(Toy):
    """A player does not see which action is wanted: any valid one may be."""

    def redrawn(self, keys: jax.Array, states: Boards) -> Boards:
        weights = jnp.where(states.mask, 0.0, -jnp.inf)
        each = jax.random.wrap_key_data(keys)
        wanted = jax.vmap(jax.random.categorical)(each, weights)
        return states.replace(wanted=wanted.astype(jnp.int32))


@pytest.fixture(scope="module")
def params() -> Any:
    """Of a network that knows nothing yet."""
    return NETWORK.init(jax.random.key(0))


@pytest.fixture(scope="module")
def boards() -> Boards:
    return Toy().reset(jax.random.key_data(jax.random.split(jax.random.key(1), BOARDS)))


def plans(env: Environment, params: Any, boards: Boards, honest: bool) -> Plan:
    planner = Planner(env, NETWORK, TRIES, depth=1, honest=honest)
    keys = key_of_each(seed_key(2), jnp.arange(BOARDS, dtype=jnp.uint32))
    found: Plan = jax.jit(planner)(params, keys, boards)
    return found


def test_who_sees_everything_takes_what_is_wanted(params: Any, boards: Boards) -> None:
    plan = plans(Toy(), params, boards, honest=False)
    np.testing.assert_array_equal(plan.action, boards.wanted)


def test_tries_go_to_valid_actions_and_most_of_them_to_the_best(
    params: Any, boards: Boards
) -> None:
    plan = plans(Toy(), params, boards, honest=False)
    mask, tries = np.asarray(boards.mask), np.asarray(plan.tries)
    np.testing.assert_array_equal(tries.sum(-1), TRIES)
    assert (tries[~mask] == 0).all()
    assert (tries[mask] > 0).all()
    best = np.take_along_axis(tries, np.asarray(plan.action)[:, None], -1)[:, 0]
    assert (best == tries.max(-1)).all()


def test_an_honest_plan_is_the_same_whatever_is_hidden(params: Any, boards: Boards) -> None:
    other = boards.replace(wanted=jnp.argmax(boards.mask, -1).astype(jnp.int32))
    assert (np.asarray(other.wanted) != np.asarray(boards.wanted)).any()
    looks_the_same = [plans(Unseen(), params, each, honest=True) for each in (boards, other)]
    for one, two in zip(*map(jax.tree.leaves, looks_the_same), strict=True):
        np.testing.assert_array_equal(one, two)


class Unseen(Veiled):
    """Nor does the observation show it."""

    def decode(self, seen: Boards) -> Any:
        parts, mask = super().decode(seen)
        return {**parts, "wanted": jnp.zeros_like(parts["wanted"])}, mask


@pytest.mark.parametrize("devices", [1, 4])
def test_looking_ahead_wins_every_game_on_any_mesh(params: Any, devices: int) -> None:
    planner = Planner(Toy(), NETWORK, 2 * TRIES, depth=1, honest=False)
    played = Evaluation(
        Toy(), NETWORK, mesh.over(jax.devices()[:devices]), planner.look_ahead
    ).beside_random(params, seed=1, games=16)
    assert played["agent"][RETURN].tolist() == [LENGTH] * 16
    assert played["random"][RETURN].mean() < 0.7 * LENGTH


def test_an_environment_that_does_not_say_what_is_hidden_is_not_planned_on_honestly(
    params: Any, boards: Boards
) -> None:
    with pytest.raises(NotImplementedError, match="toy does not say what is hidden"):
        plans(Toy(), params, boards, honest=True)
