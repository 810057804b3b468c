"""The metrics of play, summed on the devices."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from hackmatrix.rl import rollout, tally
from hackmatrix.rl.tally import CUT_OFF, LENGTH, RETURN
from tests.envs.toy import LENGTH as STEPS
from tests.rl.rolled import AXIS, Rollout, on_one_device


def test_the_tally_counts_what_was_played(toy_rollout: Rollout) -> None:
    batch, metrics = toy_rollout.batch, toy_rollout.metrics
    reward, ended = np.asarray(batch.reward), np.asarray(batch.ended)
    assert int(metrics["train/num_episodes"]) == ended.sum()
    np.testing.assert_allclose(metrics["train/mean_reward"], reward.mean(), rtol=1e-6)
    assert float(metrics[LENGTH]) == STEPS
    whole = reward[: 2 * STEPS].reshape(2, STEPS, -1).sum(1).mean()
    np.testing.assert_allclose(metrics[RETURN], whole, rtol=1e-6)
    wanted = np.asarray(batch.seen.wanted)
    np.testing.assert_allclose(metrics["toy/last_wanted"], wanted[ended].mean(), rtol=1e-6)
    assert float(metrics["toy/highest_wanted"]) == wanted[ended].max()
    assert float(metrics["toy/invalid"]) == 0


def test_merged_tallies_have_the_highest_of_either() -> None:
    nothing = jnp.zeros((3, 1))
    one, other = (
        tally.Tally(nothing, nothing, nothing, nothing, jnp.array(highest)[:, None], names=())
        for highest in ([1.0, 5.0, -jnp.inf], [3.0, 2.0, 4.0])
    )
    assert tally.merge(one, other).highest[:, 0].tolist() == [3, 5, 4]


def test_metrics_of_episodes_are_nan_until_one_has_ended(toy_rollout: Rollout) -> None:
    env, players = toy_rollout.env, toy_rollout.players
    keys = jnp.stack([players.number, players.number], axis=-1)

    def one_step() -> tally.Metrics:
        counted = tally.empty(rollout.step_spec(env, players))
        _, step = env.step(keys, players.boards, jnp.zeros_like(players.number, jnp.int32))
        return tally.read(tally.add(counted, step, step.reward, step.reward), AXIS)

    metrics = on_one_device(one_step)()
    assert int(metrics["train/num_episodes"]) == 0
    unknown = {RETURN, LENGTH, "toy/last_wanted", "toy/highest_wanted"}
    assert {name for name, value in metrics.items() if np.isnan(value)} == unknown
    known = {metric.tag for metric in tally.SECTION.metrics if metric.tag in metrics}
    assert known == {metric.tag for metric in tally.SECTION.metrics} - {CUT_OFF}
