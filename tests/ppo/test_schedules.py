"""What changes over a run of PPO: the learning rate and the weight of the entropy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hackmatrix.ppo import metrics
from hackmatrix.ppo.algorithm import PPO
from hackmatrix.rl.learning.metrics import ENTROPY, GRAD_NORM, LR, VF_LOSS
from tests.ppo.played import Played, Settings
from tests.rl.rolled import AXIS, on_one_device


def told_by_updates(
    played: Played, settings: Settings, updates: Sequence[int], advantage: jax.Array
) -> list[dict[str, float]]:
    """Returns the metrics of updates with these indices, which learn from the same batch."""
    algorithm = PPO(played.env, played.network, settings, AXIS)

    def learn(update: jax.Array) -> Any:
        learner = played.before.replace(update=update)
        return algorithm.learn(learner, played.players.number, played.batch, advantage)[1]

    compiled = on_one_device(learn)
    return [jax.tree.map(float, compiled(jnp.int32(update))) for update in updates]


def test_the_learning_rate_falls_to_zero_where_it_is_annealed(played: Played) -> None:
    nothing = jnp.zeros_like(played.batch.reward)
    falling = dataclasses.replace(played.settings, anneal_lr=True, num_updates=10)
    rates = [told[LR] for told in told_by_updates(played, falling, (0, 5, 10, 12), nothing)]
    np.testing.assert_allclose(rates, [0.01, 0.005, 0, 0], atol=1e-9)
    assert played.metrics[LR] == np.float32(0.01)


def test_the_weight_of_the_entropy_changes_linearly_over_a_run(played: Played) -> None:
    """It shows in the total loss of one gradient step, whose other parts stay the same."""
    one_step = dataclasses.replace(
        played.settings, num_minibatches=1, update_epochs=1, num_updates=10
    )

    def told(updates: Sequence[int], **weights: Any) -> list[dict[str, float]]:
        changed = dataclasses.replace(one_step, **weights)
        return told_by_updates(played, changed, updates, played.batch.reward)

    (without,) = told((0,), ent_coef=0.0)
    weighted = told((0, 5, 10, 12), ent_coef=0.2, ent_coef_at_end=0.1)
    less = without[metrics.TOTAL_LOSS] - np.array([each[metrics.TOTAL_LOSS] for each in weighted])
    np.testing.assert_allclose(less / without[ENTROPY], [0.2, 0.15, 0.1, 0.1], atol=1e-4)


def test_a_subclass_may_have_an_optimiser_and_schedules_of_its_own(played: Played) -> None:
    class Plain(PPO):
        def optimiser(self) -> optax.GradientTransformation:
            return optax.identity()

        def learning_rate(self, update: jax.Array | int) -> jax.Array:
            return jnp.float32(0.25) * update

        def entropy_weight(self, update: jax.Array) -> jax.Array:
            return 0.5 * update

    one_step = dataclasses.replace(played.settings, num_minibatches=1, update_epochs=1)
    algorithm = Plain(played.env, played.network, one_step, AXIS)
    nothing = jnp.zeros_like(played.batch.reward)
    before = played.before.replace(update=jnp.int32(2), optimiser=algorithm.optimiser().init({}))

    def learn(number: jax.Array) -> Any:
        return algorithm.learn(before, number, played.batch, nothing)

    after, found = on_one_device(learn)(played.players.number)
    told = {tag: float(value) for tag, value in found.items()}
    change = jax.tree.map(jnp.subtract, before.params, after.params)
    assert told[LR] == 0.5
    assert float(optax.tree.norm(change)) == pytest.approx(0.5 * told[GRAD_NORM], rel=1e-4)
    rest = told[metrics.PG_LOSS] + one_step.vf_coef * told[VF_LOSS]
    assert told[metrics.TOTAL_LOSS] == pytest.approx(rest - 1.0 * told[ENTROPY], rel=1e-5)
