"""PPO against a second implementation in float64 (reference.py)."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.ppo import minibatches, policy, returns
from hackmatrix.networks.actor_critic import outputs
from hackmatrix.ppo.algorithm import learning_rate
from tests.ppo import reference
from tests.ppo.played import Played
from tests.ppo.toy import LENGTH


def as_float64(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def test_advantages_are_the_discounted_sums_of_errors(played: Played) -> None:
    batch = played.batch
    expected = reference.advantages(
        as_float64(batch.reward), as_float64(batch.value), np.asarray(batch.ended),
        as_float64(played.last_values), played.settings.gamma, played.settings.gae_lambda,
    )  # fmt: skip
    assert np.asarray(batch.ended).any()
    np.testing.assert_allclose(played.advantage, expected, atol=1e-5)


def test_the_stored_observation_is_the_one_that_the_action_was_chosen_from(played: Played) -> None:
    observation, mask = played.env.decode(played.batch.seen)
    logits, value = outputs(played.network, played.before.params, observation)
    log_prob = policy.masked(logits, mask).log_prob(played.batch.action)
    np.testing.assert_allclose(log_prob, played.batch.log_prob, atol=1e-6)
    np.testing.assert_allclose(value, played.batch.value, atol=1e-6)
    later = policy.masked(logits[1:], mask[1:]).log_prob(played.batch.action[:-1])
    assert np.abs(later - played.batch.log_prob[:-1]).max() > 1  # one step off would be seen


def test_an_observation_in_parts_is_that_of_the_parts_side_by_side(played: Played) -> None:
    parts, _ = played.env.decode(played.batch.seen)
    assert len(parts) > 1
    network, params = played.network, played.before.params
    whole = outputs(network, params, jnp.concatenate(parts, axis=-1))
    for one, other in zip(outputs(network, params, parts), whole, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_rewards_are_those_of_the_actions_taken(played: Played) -> None:
    batch = played.batch
    np.testing.assert_array_equal(batch.reward, batch.action == batch.seen.wanted)


def test_a_truncated_episode_is_worth_what_it_would_still_have_brought(cut_off: Played) -> None:
    batch, played = cut_off.batch, cut_off
    end = LENGTH - 1
    gained = np.asarray(batch.reward[end] - (batch.action[end] == batch.seen.wanted[end]))
    assert np.asarray(batch.ended[end]).all()
    # The observation after the end: the one which a longer episode would have shown next.
    keys = jax.vmap(jax.random.fold_in, (None, 0))(_step_key(played, end), played.players.number)
    final = played.env._boards(jax.random.key_data(keys), batch.seen.time[end])
    value = outputs(played.network, played.before.params, played.env.decode(final)[0])[1]
    np.testing.assert_allclose(gained, played.settings.gamma * np.asarray(value), atol=1e-5)


def _step_key(played: Played, step: int) -> jax.Array:
    key = played.before.key
    for number in (3, played.before.update, step):  # 3: what happens in a step
        key = jax.random.fold_in(key, number)
    return key


def test_a_whole_update_equals_the_one_in_float64(played: Played) -> None:
    used, batch = played.settings, played.batch
    params = as_float64(played.before.params["params"])
    adam = reference.Adam(params)
    parts, mask = jax.tree.map(np.asarray, played.env.decode(batch.seen))
    observation = np.concatenate(parts, axis=-1)
    advantage = as_float64(played.advantage)
    target = advantage + as_float64(batch.value)
    flat = {
        "observation": observation.reshape(-1, observation.shape[-1]).astype(np.float64),
        "mask": mask.reshape(-1, mask.shape[-1]),
        "action": np.asarray(batch.action).ravel(),
        "log_prob": as_float64(batch.log_prob).ravel(),
        "advantage": advantage.ravel(),
        "target": target.ravel(),
    }
    seen: list[dict[str, float]] = []
    for epoch in range(used.update_epochs):
        rows = minibatches.rows(
            played.before.key, played.before.update, jnp.uint32(epoch), played.players.number,
            used.num_steps, used.group_envs, used.num_minibatches,
        )  # fmt: skip
        for part in np.asarray(rows):
            chosen = reference.Minibatch(**{name: column[part] for name, column in flat.items()})
            _, gradient, parts = reference.loss(params, chosen, used)
            params = adam.step(params, gradient, used.lr, used.max_grad_norm)
            seen.append(parts)
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
    for name in seen[0]:
        mean = np.mean([parts[name] for parts in seen])
        np.testing.assert_allclose(played.losses[name], mean, atol=1e-5, err_msg=name)
    assert float(played.losses["train/clip_frac"]) > 0.1  # else clipping was not tested


def test_the_gradient_of_the_reference_is_the_slope_of_its_loss(played: Played) -> None:
    params = as_float64(played.before.params["params"])
    random = np.random.default_rng(0)
    count = 40
    mask = random.random((count, 6)) < 0.6
    mask[:, 0] = True
    chosen = reference.Minibatch(
        observation=random.normal(size=(count, 12)), mask=mask, action=np.zeros(count, int),
        log_prob=random.normal(size=count) - 1, advantage=random.normal(size=count),
        target=random.normal(size=count),
    )  # fmt: skip
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


def test_the_tally_counts_what_was_played(played: Played) -> None:
    batch, metrics = played.batch, played.metrics
    reward, ended = np.asarray(batch.reward), np.asarray(batch.ended)
    assert int(metrics["train/num_episodes"]) == ended.sum()
    np.testing.assert_allclose(metrics["train/mean_reward"], reward.mean(), rtol=1e-6)
    assert float(metrics["train/mean_episode_length"]) == LENGTH
    whole = reward[: 2 * LENGTH].reshape(2, LENGTH, -1).sum(1).mean()
    np.testing.assert_allclose(metrics["train/mean_episode_return"], whole, rtol=1e-6)
    wanted = np.asarray(batch.seen.wanted)
    np.testing.assert_allclose(metrics["toy/last_wanted"], wanted[ended].mean(), rtol=1e-6)
    assert float(metrics["toy/highest_wanted"]) == wanted[ended].max()
    assert float(metrics["toy/invalid"]) == 0


def test_the_learning_rate_falls_to_nothing_when_told_to(played: Played) -> None:
    falling = dataclasses.replace(played.settings, decay_updates=10)
    rates = [float(learning_rate(falling, jnp.int32(n))) for n in (0, 5, 10, 12)]
    np.testing.assert_allclose(rates, [0.01, 0.005, 0, 0], atol=1e-9)
    assert float(learning_rate(played.settings, jnp.int32(9))) == np.float32(0.01)


def test_the_return_scale_is_the_recent_root_mean_square() -> None:
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("envs",))
    everywhere = jax.sharding.PartitionSpec()
    learn = jax.jit(
        jax.shard_map(
            lambda scale, returned: returns.learn(scale, returned, "envs"),
            mesh=mesh, in_specs=everywhere, out_specs=everywhere,
        )
    )  # fmt: skip
    scale = returns.unknown()
    assert float(scale.unit) == 1
    scale = learn(scale, jnp.array([[3.0, -3.0]]))
    np.testing.assert_allclose(scale.unit, 3, rtol=1e-6)
    for _ in range(1500):
        scale = learn(scale, jnp.array([[10.0, 0.0]]))
    np.testing.assert_allclose(scale.unit, np.sqrt(50), rtol=1e-4)
