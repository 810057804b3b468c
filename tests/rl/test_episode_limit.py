"""Episodes that training cuts off after so many actions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.rl.draws import Purpose
from hackmatrix.rl.tally import CUT_OFF, LENGTH
from tests.envs.toy import LENGTH as WHOLE
from tests.envs.toy import Boards, Toy
from tests.rl.rolled import STEPS, UPDATE_KEY, Rolled, roll

LIMIT, BOARDS = 4, 40  # more boards than are gathered at a time


@pytest.fixture(scope="module", params=[False, True])
def limited(request: pytest.FixtureRequest) -> Rolled:
    """Where episodes of WHOLE steps terminate, and where they are truncated by themselves."""
    return roll(request.param, LIMIT, BOARDS)


def test_an_episode_ends_at_the_limit_and_is_counted(limited: Rolled) -> None:
    ends = np.arange(1, STEPS + 1) % LIMIT == 0
    np.testing.assert_array_equal(limited.batch.ended, np.repeat(ends[:, None], BOARDS, axis=1))
    assert int(limited.metrics["train/num_episodes"]) == BOARDS * ends.sum()
    assert float(limited.metrics[LENGTH]) == LIMIT
    assert float(limited.metrics[CUT_OFF]) == 1
    assert not limited.after.episode_length.any()


def test_it_has_missed_what_its_last_observation_was_worth(limited: Rolled) -> None:
    batch, end = limited.batch, LIMIT - 1
    assert batch.missed is not None
    # What would have been seen next: the toy shows it by the key of the step.
    keys = jax.random.key_data(UPDATE_KEY.each(Purpose.STEP, end, limited.players.number))
    last = limited.env.boards(keys, jnp.full(BOARDS, LIMIT))
    value = limited.network(limited.params, limited.env.decode(last)[0])[1]
    np.testing.assert_allclose(batch.missed[end], value, atol=1e-5)
    assert np.abs(batch.missed[end]).min() > 1e-3
    assert not batch.missed[~batch.ended].any()


def test_a_new_game_begins_in_its_place(limited: Rolled) -> None:
    keys = UPDATE_KEY.each(Purpose.CUT_OFF, LIMIT - 1, limited.players.number)
    begun = jax.tree.map(lambda leaf: leaf[LIMIT], limited.batch.seen)
    jax.tree.map(np.testing.assert_array_equal, begun, limited.env.reset(jax.random.key_data(keys)))


def test_a_limit_that_no_episode_reaches_changes_nothing(rolled: Rolled) -> None:
    limited = roll(False, WHOLE)
    assert float(limited.metrics[CUT_OFF]) == 0
    assert limited.batch.missed is not None
    assert not limited.batch.missed.any()
    jax.tree.map(np.testing.assert_array_equal, rolled.batch, limited.batch.replace(missed=None))
    jax.tree.map(np.testing.assert_array_equal, rolled.after, limited.after)


def test_all_boards_are_looked_at_as_often_as_without_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that begin anew are looked at besides, which are few."""
    looks: list[int] = []

    def encode(_: Toy, states: Boards) -> Boards:
        looks.append(states.time.size)
        return states

    monkeypatch.setattr(Toy, "encode", encode)
    often = []
    for limit in (0, LIMIT):
        looks.clear()
        roll(False, limit, BOARDS)
        often.append(looks.count(BOARDS))
    assert often[0] == often[1] > 0
