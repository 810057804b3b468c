"""What agents learn from."""

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


def test_the_reward_itself_is_learned_from_unless_something_else_is_asked_for() -> None:
    np.testing.assert_array_equal(RewardSignal(0.9).learned(REWARD, SHAPING), REWARD)
    np.testing.assert_array_equal(RewardSignal(0.9, True).learned(REWARD, None), REWARD)


def test_potential_based_shaping_takes_the_place_of_what_the_environment_gives() -> None:
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
def test_what_a_player_owns_at_the_end_is_worth_so_much_more_than_the_rewards(shaped: bool) -> None:
    """Uncompressed, and less where it is lost again."""
    signal = RewardSignal(0.9, shaped, compress_rewards=True)
    owning = SHAPING.replace(gained=jnp.array([2.0, -1.0, 0.0]))
    kept = dataclasses.replace(signal, owned_reward_end=1.5)
    extra = kept.learned(REWARD, owning) - signal.learned(REWARD, owning)
    np.testing.assert_allclose(extra, [3.0, -1.5, 0.0], atol=1e-6)
    np.testing.assert_array_equal(kept.learned(REWARD, SHAPING), signal.learned(REWARD, SHAPING))


def test_there_is_no_shaping_without_a_potential() -> None:
    RewardSignal(0.9).check(Toy())
    with pytest.raises(UserError, match="potential_shaping=True is not supported by toy"):
        RewardSignal(0.9, potential_shaping=True).check(Toy())


def test_what_nobody_can_own_is_worth_nothing() -> None:
    with pytest.raises(UserError, match=r"owned_reward_end=.* is not supported by toy, whose"):
        RewardSignal(0.9, owned_reward_end=1.5).check(Toy())
