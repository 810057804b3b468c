"""A policy plays one game, with the draws of an evaluation and the outputs of its network."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.envs.protocol import in_parts
from hackmatrix.rl import distributions
from hackmatrix.rl.draws import Purpose, fold_in, key_for, seed_key
from hackmatrix.rl.rollout import UpdateKey
from hackmatrix.train.policies.player import Player
from hackmatrix.train.policies.policy import Policy

SEED, NUMBER = 3, 41
NUMBERS = jnp.array([NUMBER], jnp.uint32)


def observations_and_masks(policy: Policy) -> tuple[np.ndarray, np.ndarray]:
    """Returns the observations and masks of some random boards."""
    rng = np.random.default_rng(0)
    observations = rng.random((20, policy.env.observation_size), np.float32)
    masks = rng.random((20, policy.env.num_actions)) < 0.3
    masks[:, 0] = True
    return observations, masks


@pytest.mark.parametrize("seed", [SEED, (1 << 31) + SEED, (1 << 32) + SEED])
def test_a_game_has_the_draws_of_its_number_in_an_evaluation(policy: Policy, seed: int) -> None:
    step, key = 7, seed_key(seed)
    player = Player(policy, seed=seed, number=NUMBER, greedy=False)
    step_keys = jax.random.key_data(UpdateKey(key, 0).each(Purpose.STEP, step, NUMBERS))
    reset_keys = jax.random.key_data(fold_in(key_for(key, Purpose.RESET), NUMBERS))
    for drawn_from, expected in ((step, step_keys[0]), (None, reset_keys[0])):
        raw, turn = player.step_key(drawn_from)
        np.testing.assert_array_equal(jax.random.fold_in(jnp.asarray(raw), turn), expected)


def test_the_actions_of_a_game_are_those_that_an_evaluation_draws(policy: Policy) -> None:
    player = Player(policy, seed=SEED, number=NUMBER, greedy=False)
    drawn, expected = [], []
    for step, (observation, mask) in enumerate(zip(*observations_and_masks(policy), strict=True)):
        action, probabilities, value = player.choose(observation, mask, step, None)
        parts = in_parts(jnp.asarray(observation[None]), policy.env.observation)
        logits, values = policy.network(policy.params, parts)
        choice = distributions.masked(logits, jnp.asarray(mask[None]))
        act = UpdateKey(seed_key(SEED), 0).each(Purpose.ACT, step, NUMBERS)
        expected.append(int(distributions.sample(choice, act)[0]))
        drawn.append(action)
        np.testing.assert_allclose(probabilities, choice.probs[0], atol=1e-4)
        assert value == pytest.approx(float(values[0]), abs=1e-3)
    assert drawn == expected
    assert len(set(drawn)) > 3


def test_the_greedy_policy_takes_the_likeliest_action(policy: Policy) -> None:
    player = Player(policy, seed=SEED, number=NUMBER, greedy=True)
    for observation, mask in zip(*observations_and_masks(policy), strict=True):
        action, probabilities, _ = player.choose(observation, mask, 0, None)
        assert action == int(np.argmax(probabilities))
        assert mask[action]
        assert not np.any(np.array(probabilities)[~mask])
