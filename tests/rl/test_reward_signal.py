"""The reward that agents learn from."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.envs.protocol import Shaping
from hackmatrix.errors import UserError
from hackmatrix.rl.reward_signal import RewardSignal
from tests.envs.toy import Toy

REWARD = jnp.array([0.04, -0.01, 500.04])
SHAPING = Shaping(
    before=jnp.array([-0.5, -0.4, -0.05]),
    after=jnp.array([-0.45, -0.45, 0.0]),
    rewarded=jnp.array([0.05, 0.0, 0.05]),
)


def test_the_reward_is_unchanged_by_default_and_without_shaping_terms() -> None:
    np.testing.assert_array_equal(RewardSignal(0.9).learned(REWARD, SHAPING), REWARD)
    np.testing.assert_array_equal(RewardSignal(0.9, True).learned(REWARD, None), REWARD)


def test_potential_based_shaping_replaces_its_part_of_the_reward() -> None:
    learned = RewardSignal(0.9, potential_shaping=True).learned(REWARD, SHAPING)
    expected = [-0.01 - 0.405 + 0.5, -0.01 - 0.405 + 0.4, 499.99 + 0.05]
    np.testing.assert_allclose(learned, expected, atol=1e-4)


def test_rewards_are_compressed_and_the_potential_is_not() -> None:
    learned = RewardSignal(0.9, compress_rewards=True).learned(REWARD, SHAPING)
    np.testing.assert_allclose(learned, [np.log(1.04), -np.log(1.01), np.log(501.04)], rtol=1e-5)
    both = RewardSignal(0.9, potential_shaping=True, compress_rewards=True).learned(REWARD, SHAPING)
    expected = [-np.log(1.01) + 0.095, -np.log(1.01) - 0.005, np.log(500.99) + 0.05]
    np.testing.assert_allclose(both, expected, atol=1e-4)


@pytest.mark.parametrize("shaped", [False, True])
def test_possessions_that_are_gained_add_to_the_reward(shaped: bool) -> None:
    """The reward for them is not compressed, and is negative where they are lost."""
    signal = RewardSignal(0.9, shaped, compress_rewards=True)
    owning = SHAPING.replace(gained=jnp.array([2.0, -1.0, 0.0]))
    rewarding = dataclasses.replace(signal, owned_reward_end=1.5)
    extra = rewarding.learned(REWARD, owning) - signal.learned(REWARD, owning)
    np.testing.assert_allclose(extra, [3.0, -1.5, 0.0], atol=1e-6)
    np.testing.assert_array_equal(
        rewarding.learned(REWARD, SHAPING), signal.learned(REWARD, SHAPING)
    )


def test_potential_shaping_is_refused_without_a_potential() -> None:
    RewardSignal(0.9).check(Toy())
    with pytest.raises(UserError, match="potential_shaping=True is not supported by toy"):
        RewardSignal(0.9, potential_shaping=True).check(Toy())


def test_a_reward_for_possessions_is_refused_where_players_own_nothing() -> None:
    with pytest.raises(UserError, match=r"owned_reward_end=.* is not supported by toy, whose"):
        RewardSignal(0.9, owned_reward_end=1.5).check(Toy())
