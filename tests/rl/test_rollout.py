"""Rollouts: what is kept of a step is what the network saw, did and got."""

from __future__ import annotations

import jax
import numpy as np

from hackmatrix.envs.protocol import Step
from hackmatrix.rl import distributions
from tests.envs.toy import LENGTH, Boards, Toy
from tests.rl.rolled import STEPS, UPDATE_KEY, Rolled, roll

HAPPENS = 3  # the purpose of draws for what happens in a step


def test_the_stored_observation_is_the_one_that_the_action_was_chosen_from(rolled: Rolled) -> None:
    observation, mask = rolled.env.decode(rolled.batch.seen)
    logits, value = rolled.network(rolled.params, observation)
    log_prob = distributions.masked(logits, mask).log_prob(rolled.batch.action)
    np.testing.assert_allclose(log_prob, rolled.batch.log_prob, atol=1e-6)
    np.testing.assert_allclose(value, rolled.batch.value, atol=1e-6)
    later = distributions.masked(logits[1:], mask[1:]).log_prob(rolled.batch.action[:-1])
    assert np.abs(later - rolled.batch.log_prob[:-1]).max() > 1  # one step off would be seen


def test_the_last_value_is_of_what_is_seen_after_the_last_step(rolled: Rolled) -> None:
    observation, _ = rolled.env.decode(rolled.env.encode(rolled.after.boards))
    value = rolled.network(rolled.params, observation)[1]
    np.testing.assert_allclose(rolled.batch.last_value, value, atol=1e-6)


def test_rewards_are_those_of_the_actions_taken(rolled: Rolled) -> None:
    batch = rolled.batch
    np.testing.assert_array_equal(batch.reward, batch.action == batch.seen.wanted)


def test_an_episode_goes_on_over_the_end_of_a_rollout(rolled: Rolled) -> None:
    going_on = STEPS % LENGTH
    assert rolled.after.episode_length.tolist() == [going_on] * rolled.after.number.size
    gained = rolled.batch.reward[-going_on:].sum(0)
    np.testing.assert_array_equal(rolled.after.episode_return, gained)
    assert gained.any()


def test_where_no_episode_is_cut_off_none_has_missed_anything(rolled: Rolled) -> None:
    assert rolled.batch.missed is None


def test_a_truncated_episode_has_missed_what_it_would_still_have_been_worth(
    cut_off: Rolled,
) -> None:
    batch, end = cut_off.batch, LENGTH - 1
    assert batch.missed is not None
    assert np.asarray(batch.ended[end]).all()
    # The observation after the end: the one which a longer episode would have shown next.
    keys = jax.vmap(jax.random.fold_in, (None, 0))(_step_key(end), cut_off.players.number)
    final = cut_off.env.boards(jax.random.key_data(keys), batch.seen.time[end])
    value = cut_off.network(cut_off.params, cut_off.env.decode(final)[0])[1]
    np.testing.assert_allclose(batch.missed[end], value, atol=1e-5)
    assert np.abs(batch.missed[end]).min() > 1e-3
    assert not batch.missed[~batch.ended].any()
    np.testing.assert_array_equal(batch.reward, batch.action == batch.seen.wanted)


class OverAtTheLimit(Toy):
    """Says of all its episodes that they were cut off, and that they came to their own end."""

    def step(self, keys: jax.Array, states: Boards, actions: jax.Array) -> tuple[Boards, Step]:
        boards, step = super().step(keys, states, actions)
        return boards, step.replace(terminated=step.truncated)


def test_an_episode_that_came_to_its_own_end_at_its_limit_has_missed_nothing() -> None:
    played = roll(truncates=True, kind=OverAtTheLimit)
    assert played.batch.missed is not None
    assert played.batch.ended.any()
    assert not played.batch.missed.any()


def _step_key(step: int) -> jax.Array:
    key = UPDATE_KEY.key
    for number in (HAPPENS, UPDATE_KEY.update, step):
        key = jax.random.fold_in(key, number)
    return key
