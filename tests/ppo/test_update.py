"""PPO against a second implementation in float64 (reference.py)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.envs.protocol import Shaping
from hackmatrix.errors import UserError
from hackmatrix.ppo import metrics
from hackmatrix.ppo.algorithm import PPO
from hackmatrix.ppo.loss import Samples, clipped_loss
from hackmatrix.rl.learning import actor_critic, minibatches
from hackmatrix.rl.learning.advantages import gae
from hackmatrix.rl.learning.metrics import EXPLAINED_VARIANCE, RETURN_SCALE
from hackmatrix.rl.rollout import UpdateKey
from tests.envs.toy import Toy
from tests.ppo import reference
from tests.ppo.played import Played, Settings, play
from tests.rl.rolled import AXIS, mlp, on_one_device


def as_float64(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def advantage_of(played: Played) -> np.ndarray:
    """Returns the advantages f64[T, E] by the reference. Truncated episodes are bootstrapped."""
    used, batch = played.settings, as_float64(played.batch.replace(seen=None))
    missed = 0 if batch.missed is None else batch.missed
    return reference.advantages(
        batch.reward + used.gamma * missed,
        batch.value,
        batch.ended,
        batch.last_value,
        used.gamma,
        used.gae_lambda,
    )


def test_the_advantage_of_a_single_sample_is_not_normalised_to_nothing() -> None:
    algorithm = PPO(Toy(truncates=False), mlp(Toy(truncates=False)), Settings(), AXIS)
    for samples, is_alone in ((1, True), (2, False)):
        mean, deviation = on_one_device(algorithm._moments)(jnp.full((4, samples), 3.0))
        assert (mean == (0 if is_alone else 3)).all()
        assert (deviation == (1 if is_alone else 0)).all()


def test_advantages_are_discounted_sums_of_errors(played: Played) -> None:
    used, batch = played.settings, played.batch
    assert np.asarray(batch.ended).any()
    estimated = gae(
        batch.reward, batch.value, batch.ended, batch.last_value, used.gamma, used.gae_lambda
    )
    np.testing.assert_allclose(estimated, advantage_of(played), atol=1e-5)


def test_potential_based_shaping_has_the_advantages_of_the_shaped_reward(played: Played) -> None:
    class Shaped(Toy):
        has_potential = True

    batch = played.batch
    before, after, rewarded = jax.random.normal(jax.random.key(3), (3, *batch.reward.shape))
    used = dataclasses.replace(played.settings, potential_shaping=True)
    algorithm = PPO(Shaped(), played.network, used, AXIS)
    shaped = algorithm.advantages(batch.replace(shaping=Shaping(before, after, rewarded)), 0)
    signal = batch.reward - rewarded + used.gamma * after - before
    expected = advantage_of(dataclasses.replace(played, batch=batch.replace(reward=signal)))
    np.testing.assert_allclose(shaped, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("share", "end", "each"),
    [(0, 0, 3), (0.125, 0, 2.25), (0.5, 0, 0), (0.75, 0, 0), (0.125, 1, 2.5), (0.75, 1, 1)],
)
def test_the_reward_for_possessions_falls_in_the_first_half_of_a_run(
    played: Played, share: float, end: float, each: float
) -> None:
    class Collecting(Toy):
        has_potential = has_possessions = True

    batch = played.batch
    gained = jax.random.randint(jax.random.key(4), batch.reward.shape, -1, 3).astype(jnp.float32)
    nothing = jnp.zeros_like(batch.reward)
    used = dataclasses.replace(
        played.settings, owned_reward=3.0, owned_reward_end=end, num_updates=80
    )
    algorithm = PPO(Collecting(), played.network, used, AXIS)
    shaped = batch.replace(shaping=Shaping(nothing, nothing, nothing, gained))
    found = algorithm.advantages(shaped, int(80 * share))
    signal = batch.reward + each * gained
    expected = advantage_of(dataclasses.replace(played, batch=batch.replace(reward=signal)))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_reward_for_possessions_is_refused_where_players_own_nothing(played: Played) -> None:
    used = dataclasses.replace(played.settings, owned_reward=3.0)
    with pytest.raises(UserError, match="is not supported by toy, whose players own nothing"):
        PPO(played.env, played.network, used, AXIS)


def test_potential_shaping_is_refused_without_a_potential(played: Played) -> None:
    used = dataclasses.replace(played.settings, potential_shaping=True)
    with pytest.raises(UserError, match="potential_shaping=True is not supported by toy"):
        PPO(played.env, played.network, used, AXIS)


def test_values_are_learned_in_units_of_the_return_scale(played: Played) -> None:
    parts, _ = played.env.decode(played.batch.seen)
    value = played.network(played.before.params, parts)[1]
    np.testing.assert_allclose(played.batch.value, 2 * value, atol=1e-5)
    acting = PPO(played.env, played.network, played.settings, AXIS).acting(played.before)
    np.testing.assert_allclose(played.network(acting, parts)[1], 2 * value, atol=1e-5)


@pytest.mark.parametrize("moved", [1e-5, -1e-5, 0.5])
def test_the_divergence_of_a_policy_that_hardly_moved_is_accurate(moved: float) -> None:
    """The only valid action has the log probability 0, so the ratio is exact."""
    nothing = jnp.zeros(4)
    samples = Samples(None, jnp.zeros(4, int), nothing - jnp.float32(moved), nothing, nothing)
    only = jnp.arange(3) == jnp.zeros((4, 1))
    _, reported = clipped_loss(jnp.zeros((4, 3)), nothing, only, samples, Settings(), 0.0)
    expected = math.expm1(np.float32(moved)) - np.float32(moved)
    assert float(reported[metrics.APPROX_KL]) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("which", ["played", "truncated"])
def test_a_whole_update_equals_the_one_in_float64(
    which: str, request: pytest.FixtureRequest
) -> None:
    played: Played = request.getfixturevalue(which)
    used, batch = played.settings, played.batch
    params = as_float64(played.before.params["params"])
    adam = reference.Adam(params)
    parts, mask = jax.tree.map(np.asarray, played.env.decode(batch.seen))
    observation = np.concatenate(list(parts.values()), axis=-1)
    advantage = advantage_of(played)
    target = advantage + as_float64(batch.value)
    unit = reference.unit(played.before.return_scale, target) if used.scale_returns else 2.0
    flat = {
        "observation": observation.reshape(-1, observation.shape[-1]).astype(np.float64),
        "mask": mask.reshape(-1, mask.shape[-1]),
        "action": np.asarray(batch.action).ravel(),
        "log_prob": as_float64(batch.log_prob).ravel(),
        "advantage": advantage.ravel(),
        "target": target.ravel() / unit,
    }
    all_losses: list[dict[str, float]] = []
    for epoch in range(used.update_epochs):
        rows = minibatches.rows(played.update_key, jnp.uint32(epoch), played.players.number, used)
        for part in np.asarray(rows):
            chosen = reference.Minibatch(**{name: column[part] for name, column in flat.items()})
            _, gradient, losses = reference.loss(params, chosen, used)
            params = adam.step(params, gradient, used.lr, used.max_grad_norm)
            all_losses.append(losses)
    after = played.after.params["params"]
    moved = 0.0
    for name, layer in params.items():
        for kind, value in layer.items():
            np.testing.assert_allclose(
                after[name][kind], value, atol=2e-5, err_msg=f"{name} {kind}"
            )
            before = played.before.params["params"][name][kind]
            moved = max(moved, float(np.abs(value - before).max()))
    assert moved > 0.05
    for name in all_losses[0]:
        mean = np.mean([losses[name] for losses in all_losses])
        np.testing.assert_allclose(played.metrics[name], mean, atol=1e-5, err_msg=name)
    assert float(played.metrics[metrics.CLIP_FRAC]) > 0.1  # so that clipping is tested
    assert float(played.metrics[RETURN_SCALE]) == pytest.approx(unit, rel=1e-5)
    explained = 1 - np.var(target - as_float64(batch.value)) / np.var(target)
    assert float(played.metrics[EXPLAINED_VARIANCE]) == pytest.approx(explained, abs=1e-4)


def test_samples_are_shuffled_anew_in_every_epoch_and_update(played: Played) -> None:
    used, numbers = played.settings, played.players.number
    rows = jax.jit(minibatches.rows, static_argnums=3)
    orders = {
        tuple(np.ravel(rows(UpdateKey(played.before.key, update), epoch, numbers, used)).tolist())
        for update in range(2)
        for epoch in range(2)
    }
    assert len(orders) == 4
    for order in orders:
        assert sorted(order) == [*range(used.num_steps * numbers.size)]


def test_an_update_counts_itself_and_keeps_the_key(played: Played) -> None:
    assert int(played.after.update) == int(played.before.update) + 1
    before, after = (jax.random.key_data(each.key) for each in (played.before, played.after))
    np.testing.assert_array_equal(after, before)


def test_an_update_reports_exactly_the_declared_metrics(played: Played) -> None:
    assert played.metrics.keys() == {metric.tag for metric in metrics.SECTION.metrics}
    assert {*PPO.vital} <= played.metrics.keys()


def test_the_gradient_of_the_reference_is_the_slope_of_its_loss(played: Played) -> None:
    params = as_float64(played.before.params["params"])
    random = np.random.default_rng(0)
    count = 40
    mask = random.random((count, 6)) < 0.6
    mask[:, 0] = True
    chosen = reference.Minibatch(
        observation=random.normal(size=(count, 12)),
        mask=mask,
        action=np.zeros(count, int),
        log_prob=random.normal(size=count) - 1,
        advantage=random.normal(size=count),
        target=random.normal(size=count),
    )
    _, gradient, _ = reference.loss(params, chosen, played.settings)
    for name, index in (("Dense_0", (3, 2)), ("actor", (5, 1)), ("critic", (4, 0))):
        kernel = params[name]["kernel"]
        value, step = kernel[index], 1e-6
        kernel[index] = value + step
        above = reference.loss(params, chosen, played.settings)[0]
        kernel[index] = value - step
        below = reference.loss(params, chosen, played.settings)[0]
        kernel[index] = value
        slope = (above - below) / (2 * step)
        np.testing.assert_allclose(gradient[name]["kernel"][index], slope, rtol=1e-4, atol=1e-9)


def test_an_update_is_the_same_in_microbatches(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU splits minibatches that exceed its caches into equal microbatches: here 48 samples, at
    most 10 at a time.
    """
    traced: list[int] = []
    mean_gradient = actor_critic.mean_gradient_of_microbatches

    def noting(loss: Any, params: Any, microbatches: jax.Array, axis: str) -> Any:
        traced.append(len(microbatches))
        return mean_gradient(loss, params, microbatches, axis)

    monkeypatch.setattr(played.network.torso, "samples_at_once", 10)
    monkeypatch.setattr(actor_critic, "mean_gradient_of_microbatches", noting)
    in_microbatches = play(truncates=False)
    assert set(traced) == {6}
    for one, other in (
        (in_microbatches.after.params, played.after.params),
        (in_microbatches.metrics, played.metrics),
    ):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), one, other
        )
