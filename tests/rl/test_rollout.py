"""Rollouts: a batch holds what the network saw, did and was rewarded with at each step."""

from __future__ import annotations

import jax
import numpy as np

from hackmatrix.envs.protocol import Step
from hackmatrix.rl import distributions
from tests.envs.toy import LENGTH, Boards, Toy
from tests.rl.rolled import STEPS, UPDATE_KEY, Rollout, collect_rollout

STEP_PURPOSE = 3  # the number of the purpose STEP


def test_the_stored_observation_is_the_one_that_the_action_was_chosen_from(
    toy_rollout: Rollout,
) -> None:
    observation, mask = toy_rollout.env.decode(toy_rollout.batch.seen)
    logits, value = toy_rollout.network(toy_rollout.params, observation)
    log_prob = distributions.masked(logits, mask).log_prob(toy_rollout.batch.action)
    np.testing.assert_allclose(log_prob, toy_rollout.batch.log_prob, atol=1e-6)
    np.testing.assert_allclose(value, toy_rollout.batch.value, atol=1e-6)
    later = distributions.masked(logits[1:], mask[1:]).log_prob(toy_rollout.batch.action[:-1])
    # An offset of one step would show:
    assert np.abs(later - toy_rollout.batch.log_prob[:-1]).max() > 1


def test_the_last_value_is_that_of_the_observation_after_the_last_step(
    toy_rollout: Rollout,
) -> None:
    observation, _ = toy_rollout.env.decode(toy_rollout.env.encode(toy_rollout.after.boards))
    value = toy_rollout.network(toy_rollout.params, observation)[1]
    np.testing.assert_allclose(toy_rollout.batch.last_value, value, atol=1e-6)


def test_rewards_are_those_of_the_actions_taken(toy_rollout: Rollout) -> None:
    batch = toy_rollout.batch
    np.testing.assert_array_equal(batch.reward, batch.action == batch.seen.wanted)


def test_an_unfinished_episode_is_carried_over_the_end_of_a_rollout(toy_rollout: Rollout) -> None:
    unfinished = STEPS % LENGTH
    assert toy_rollout.after.episode_length.tolist() == [unfinished] * toy_rollout.after.number.size
    gained = toy_rollout.batch.reward[-unfinished:].sum(0)
    np.testing.assert_array_equal(toy_rollout.after.episode_return, gained)
    assert gained.any()


def test_there_are_no_bootstrap_values_where_no_episode_is_truncated(toy_rollout: Rollout) -> None:
    assert toy_rollout.batch.missed is None


def test_a_truncated_episode_bootstraps_from_its_final_observation(
    truncated_rollout: Rollout,
) -> None:
    batch, end = truncated_rollout.batch, LENGTH - 1
    assert batch.missed is not None
    assert np.asarray(batch.ended[end]).all()
    # The final observation: the one that a longer episode would have shown next.
    keys = jax.vmap(jax.random.fold_in, (None, 0))(_step_key(end), truncated_rollout.players.number)
    final = truncated_rollout.env.boards(jax.random.key_data(keys), batch.seen.time[end])
    value = truncated_rollout.network(
        truncated_rollout.params, truncated_rollout.env.decode(final)[0]
    )[1]
    np.testing.assert_allclose(batch.missed[end], value, atol=1e-5)
    assert np.abs(batch.missed[end]).min() > 1e-3
    assert not batch.missed[~batch.ended].any()
    np.testing.assert_array_equal(batch.reward, batch.action == batch.seen.wanted)


class TerminatedAtTheLimit(Toy):
    """Reports that all episodes were both truncated and terminated."""

    def step(self, keys: jax.Array, states: Boards, actions: jax.Array) -> tuple[Boards, Step]:
        boards, step = super().step(keys, states, actions)
        return boards, step.replace(terminated=step.truncated)


def test_an_episode_that_terminates_at_its_limit_does_not_bootstrap() -> None:
    played = collect_rollout(truncates=True, kind=TerminatedAtTheLimit)
    assert played.batch.missed is not None
    assert played.batch.ended.any()
    assert not played.batch.missed.any()


def _step_key(step: int) -> jax.Array:
    key = UPDATE_KEY.key
    for number in (STEP_PURPOSE, UPDATE_KEY.update, step):
        key = jax.random.fold_in(key, number)
    return key
