"""The return scale, which is the unit of learned values, and the explained variance."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.rl.draws import seed_key
from hackmatrix.rl.learning import return_scale
from hackmatrix.rl.learning.learner import Learner
from hackmatrix.rl.learning.return_scale import ReturnScale
from tests.envs.toy import Toy
from tests.rl.rolled import AXIS, mlp, on_one_device, peaked_params


def test_the_return_scale_is_the_recent_root_mean_square() -> None:
    update = on_one_device(lambda scale, returns: return_scale.update(scale, returns, AXIS))
    scale = return_scale.initial_scale()
    assert float(scale.unit) == 1
    scale = update(scale, jnp.array([[3.0, -3.0]]))
    np.testing.assert_allclose(scale.unit, 3, rtol=1e-6)
    for _ in range(1500):
        scale = update(scale, jnp.array([[10.0, 0.0]]))
    np.testing.assert_allclose(scale.unit, np.sqrt(50), rtol=1e-4)
    nothing_earned = update(return_scale.initial_scale(), jnp.zeros((1, 2)))
    # Not 0, as values are divided by it:
    np.testing.assert_allclose(nothing_earned.unit, 0.01, rtol=1e-6)


@pytest.mark.parametrize(
    ("returns", "values", "explained"),
    [
        ([1.0, 2.0, 6.0], [1.0, 2.0, 6.0], 1),
        ([1.0, 2.0, 6.0], [4.0, 5.0, 9.0], 1),  # a constant more than the returns
        ([1.0, 2.0, 6.0], [3.0, 3.0, 3.0], 0),
        ([1.0, 2.0, 6.0], [6.0, 2.0, 1.0], 1 - (50 / 3) / (14 / 3)),
        ([0.0, 0.0, 0.0], [1.0, 2.0, 6.0], 0),  # nothing was earned yet
        ([1e-17, 0.0, 0.0], [1.0, 2.0, 6.0], 1 - 1e12),
    ],
)
def test_the_explained_variance_is_the_share_that_values_predict(
    returns: list[float], values: list[float], explained: float
) -> None:
    explain = on_one_device(
        lambda returns, values: return_scale.explained_variance(returns, values, AXIS)
    )
    found = explain(jnp.array(returns), jnp.array(values))
    assert float(found) == pytest.approx(explained, rel=1e-6, abs=1e-6)


def test_values_in_units_of_reward_do_not_change_with_the_return_scale() -> None:
    env = Toy()
    network = mlp(env)
    params = peaked_params(network)
    scale = ReturnScale(jnp.float32(4), jnp.float32(1))
    learner = Learner(params, None, scale, jnp.int32(0), seed_key(0))
    parts = env.decode(env.reset(jax.random.key_data(jax.random.split(jax.random.key(1), 5))))[0]
    rescaled = learner.with_scale(ReturnScale(jnp.float32(100), jnp.float32(1)))
    before, after = (each.evaluating(network)(parts)[1] for each in (learner, rescaled))
    np.testing.assert_allclose(before, after, rtol=1e-5)
    np.testing.assert_allclose(network(rescaled.params, parts)[1], after / 10, rtol=1e-5)
