"""Episodes that training cuts off at a number of actions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.rl.draws import Purpose
from hackmatrix.rl.tally import CUT_OFF, LENGTH
from tests.envs.toy import LENGTH as WHOLE
from tests.envs.toy import Boards, Toy
from tests.rl.rolled import STEPS, UPDATE_KEY, Rollout, collect_rollout

LIMIT, BOARDS = 4, 40  # more boards than are restarted in one pass


@pytest.fixture(scope="module", params=[False, True])
def limited(request: pytest.FixtureRequest) -> Rollout:
    """On environments that terminate or truncate episodes after WHOLE steps."""
    return collect_rollout(request.param, LIMIT, BOARDS)


def test_an_episode_ends_at_the_limit_and_is_counted(limited: Rollout) -> None:
    ends = np.arange(1, STEPS + 1) % LIMIT == 0
    np.testing.assert_array_equal(limited.batch.ended, np.repeat(ends[:, None], BOARDS, axis=1))
    assert int(limited.metrics["train/num_episodes"]) == BOARDS * ends.sum()
    assert float(limited.metrics[LENGTH]) == LIMIT
    assert float(limited.metrics[CUT_OFF]) == 1
    assert not limited.after.episode_length.any()


def test_an_episode_at_its_limit_bootstraps_from_its_final_observation(limited: Rollout) -> None:
    batch, end = limited.batch, LIMIT - 1
    assert batch.missed is not None
    # The final observation, which the toy draws from the key of the step.
    keys = jax.random.key_data(UPDATE_KEY.each(Purpose.STEP, end, limited.players.number))
    last = limited.env.boards(keys, jnp.full(BOARDS, LIMIT))
    value = limited.network(limited.params, limited.env.decode(last)[0])[1]
    np.testing.assert_allclose(batch.missed[end], value, atol=1e-5)
    assert np.abs(batch.missed[end]).min() > 1e-3
    assert not batch.missed[~batch.ended].any()


def test_a_new_game_follows_an_episode_at_its_limit(limited: Rollout) -> None:
    keys = UPDATE_KEY.each(Purpose.CUT_OFF, LIMIT - 1, limited.players.number)
    first_seen = jax.tree.map(lambda leaf: leaf[LIMIT], limited.batch.seen)
    jax.tree.map(
        np.testing.assert_array_equal, first_seen, limited.env.reset(jax.random.key_data(keys))
    )


def test_a_limit_that_no_episode_reaches_changes_nothing(toy_rollout: Rollout) -> None:
    limited = collect_rollout(False, WHOLE)
    assert float(limited.metrics[CUT_OFF]) == 0
    assert limited.batch.missed is not None
    assert not limited.batch.missed.any()
    jax.tree.map(
        np.testing.assert_array_equal, toy_rollout.batch, limited.batch.replace(missed=None)
    )
    jax.tree.map(np.testing.assert_array_equal, toy_rollout.after, limited.after)


def test_all_boards_are_encoded_as_often_as_without_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Besides these there are calls for the few boards that are restarted."""
    sizes: list[int] = []

    def encode(_: Toy, states: Boards) -> Boards:
        sizes.append(states.time.size)
        return states

    monkeypatch.setattr(Toy, "encode", encode)
    calls = []
    for limit in (0, LIMIT):
        sizes.clear()
        jax.eval_shape(lambda limit=limit: collect_rollout(False, limit, BOARDS).after)
        calls.append(sizes.count(BOARDS))
    assert calls[0] == calls[1] > 0
