"""Tree search on the toy environment, whose numbers can all be computed by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.envs.protocol import Step
from hackmatrix.rl.draws import fold_in, seed_key
from hackmatrix.rl.reward_signal import RewardSignal
from hackmatrix.search.base import Found
from hackmatrix.search.tree import TreeSearch
from tests.envs.toy import ACTIONS, LENGTH, Boards, Toy
from tests.rl.rolled import mlp
from tests.search.open import DerivedKeys, Even, Open

BOARDS, SIMULATIONS, GAMMA = 32, 16, 0.1
OPEN = Open()
NETWORK = mlp(OPEN, hidden_dim=8, num_layers=1)


def boards_at(time: int) -> Boards:
    keys = jax.random.key_data(jax.random.split(jax.random.key(1), BOARDS))
    return OPEN.reset(keys).replace(time=jnp.full(BOARDS, time, jnp.int32))


@functools.cache
def search(env: Toy, simulations: int) -> Callable[..., Found]:
    """Returns a compiled search, which all tests share."""
    return jax.jit(TreeSearch(env, NETWORK, RewardSignal(GAMMA, False), simulations))


def found_on(
    boards: Any,
    params: Any,
    numbers: Any,
    env: Toy = OPEN,
    valid: Any = None,
    noise: Any = 0.0,
    simulations: int = SIMULATIONS,
) -> Found:
    keys = fold_in(seed_key(2), jnp.asarray(numbers, jnp.uint32))
    valid = env.mask(boards) if valid is None else valid
    noise = jnp.broadcast_to(noise, valid.shape)
    found: Found = search(env, simulations)(params, keys, boards, valid, noise)
    return jax.tree.map(np.asarray, found)


@pytest.fixture(scope="module")
def params() -> Any:
    """Of an untrained network."""
    return NETWORK.init(jax.random.key(0))


@pytest.fixture(scope="module")
def found(params: Any) -> Found:
    return found_on(boards_at(0), params, range(BOARDS))


def test_the_wanted_action_is_found(found: Found) -> None:
    np.testing.assert_array_equal(found.action, boards_at(0).wanted)


def test_the_improved_policy_is_better_and_takes_only_valid_actions(found: Found) -> None:
    boards = boards_at(0)
    mask = np.asarray(boards.mask)
    np.testing.assert_allclose(found.policy.sum(-1), 1, atol=1e-5)
    assert (np.asarray(found.policy)[~mask] == 0).all()
    of_wanted = np.take_along_axis(np.asarray(found.policy), np.asarray(boards.wanted)[:, None], 1)
    uniform = 1 / mask.sum(-1)
    assert (of_wanted[:, 0] >= uniform - 1e-6).all()
    assert of_wanted.mean() > 0.9


def test_the_search_of_a_board_does_not_depend_on_the_boards_beside_it(
    params: Any, found: Found
) -> None:
    some = np.resize([3, 17, 8], BOARDS)
    beside = found_on(jax.tree.map(lambda leaf: leaf[some], boards_at(0)), params, some)
    np.testing.assert_array_equal(beside.action, found.action[some])
    np.testing.assert_allclose(beside.policy, found.policy[some], atol=1e-5)


def test_of_equally_good_actions_the_one_with_the_most_noise_is_taken(params: Any) -> None:
    """All are tried equally often."""
    boards = Even().boards(jnp.zeros((64, 2), jnp.uint32), jnp.zeros(64, jnp.int32))
    noise = jax.random.gumbel(jax.random.key(4), (64, ACTIONS))
    indifferent = jax.tree.map(jnp.zeros_like, params)
    found = found_on(boards, indifferent, range(64), Even(), noise=noise, simulations=ACTIONS)
    np.testing.assert_array_equal(found.action, noise.argmax(-1))


@pytest.fixture(scope="module")
def blind(params: Any) -> Found:
    """With the same keys on two copies of the boards, which differ only in what is hidden."""
    boards, keys = DerivedKeys().reset(
        jax.random.key_data(jax.random.split(jax.random.key(1), BOARDS))
    )
    others = boards.replace(wanted=jnp.argmax(boards.mask, -1).astype(jnp.int32))
    assert (others.wanted != boards.wanted).any()
    twice = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), (boards, keys), (others, keys))
    return found_on(twice, params, [*range(BOARDS)] * 2, DerivedKeys())


def test_what_is_found_is_the_same_whatever_is_hidden(blind: Found) -> None:
    for leaf in jax.tree.leaves(blind):
        np.testing.assert_array_equal(leaf[:BOARDS], leaf[BOARDS:])


def test_the_keys_of_the_environment_are_not_those_of_the_search(blind: Found) -> None:
    assert (blind.value < 2).all()  # so no step was worth 100; the network's values are lower


class TerminatedAtTheLimit(Open):
    """Reports that all episodes were both truncated and terminated."""

    def step(self, keys: jax.Array, states: Boards, actions: jax.Array) -> tuple[Boards, Step]:
        boards, step = super().step(keys, states, actions)
        return boards, step.replace(terminated=step.truncated)


@pytest.mark.parametrize(
    ("env", "is_cut_off"), [(OPEN, False), (Open(True), True), (TerminatedAtTheLimit(True), False)]
)
def test_the_value_after_an_end_counts_only_where_the_game_was_truncated(
    params: Any, env: Open, is_cut_off: bool
) -> None:
    boards = boards_at(LENGTH - 1)
    found = found_on(boards, params, range(BOARDS), env)
    wanted = np.asarray(boards.wanted)
    worth = np.take_along_axis(np.asarray(found.value), wanted[:, None], 1)[:, 0]
    np.testing.assert_array_equal(found.action, wanted)
    assert (worth == 1).all() != is_cut_off
    np.testing.assert_allclose(worth, 1, atol=5 * GAMMA)


def test_an_action_is_taken_only_if_it_is_valid_on_the_original_board(
    params: Any,
) -> None:
    boards = boards_at(0)
    wanted = np.asarray(boards.wanted)
    forbidden = np.arange(boards.mask.shape[1]) == wanted[:, None]
    valid = np.asarray(boards.mask) & ~forbidden
    found = found_on(boards, params, range(BOARDS), valid=valid)
    can = valid.any(-1)
    assert can.any()
    assert np.take_along_axis(valid, np.asarray(found.action)[:, None], 1)[can].all()
    assert (np.asarray(found.policy)[can][~valid[can]] == 0).all()
    # Where the masks of both boards have no action in common, the valid ones are searched.
    others = ~np.asarray(boards.mask)
    some = others.any(-1)
    found = found_on(boards, params, range(BOARDS), valid=others)
    assert np.take_along_axis(others, np.asarray(found.action)[:, None], 1)[some].all()
