"""One update: a rollout, its advantages, epochs of minibatches."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import optax
from flax import struct

from hackmatrix.envs import Environment
from hackmatrix.envs.protocol import Parts
from hackmatrix.ppo import advantages, minibatches, returns, rollout
from hackmatrix.ppo.loss import Samples, clipped_loss
from hackmatrix.ppo.network import ActorCritic, Params, outputs
from hackmatrix.ppo.returns import ReturnScale
from hackmatrix.ppo.rollout import Batch, Players
from hackmatrix.ppo.settings import Settings
from hackmatrix.ppo.tally import Metrics, Tally

Array = jax.Array


class Learner(struct.PyTreeNode):
    """What is learned, and what the next update depends on besides the boards."""

    params: Params
    optimiser: optax.OptState
    return_scale: ReturnScale
    update: Array  # i32: the updates done
    key: Array  # of the seed


def optimiser(settings: Settings) -> optax.GradientTransformation:
    """Adam, but for the learning rate."""
    return optax.chain(
        optax.clip_by_global_norm(settings.max_grad_norm), optax.scale_by_adam(eps=1e-5)
    )


def learning_rate(settings: Settings, update: Array) -> Array:
    if settings.decay_updates is None:
        return jnp.float32(settings.lr)
    return settings.lr * jnp.maximum(1 - update / settings.decay_updates, 0)


def update(
    env: Environment,
    network: ActorCritic,
    settings: Settings,
    axis: str,
    learner: Learner,
    players: Players,
    counted: Tally,
) -> tuple[Learner, Players, Tally, Metrics]:
    """Also gives this update's metrics over all devices, and the tally with what was played."""
    unit = learner.return_scale.unit

    def apply(observation: Parts) -> tuple[Array, Array]:
        logits, value = outputs(network, learner.params, observation)
        return logits, value * unit

    players, batch, last_values, counted = rollout.collect(
        env, apply, players, learner.key, learner.update, settings.num_steps, settings.gamma,
        counted,
    )  # fmt: skip
    advantage = advantages.estimate(
        batch.reward, batch.value, batch.ended, last_values, settings.gamma, settings.gae_lambda
    )
    targets = advantage + batch.value
    if settings.scale_returns:
        learner = learner.replace(return_scale=returns.learn(learner.return_scale, targets, axis))
    explained = returns.explained_variance(targets, batch.value, axis)
    learner, losses = learn(
        env, network, settings, axis, learner, players.number, batch, advantage, targets
    )
    metrics = {
        **losses,
        "train/explained_variance": explained,
        "train/return_scale": learner.return_scale.unit,
    }
    return learner.replace(update=learner.update + 1), players, counted, metrics


def learn(
    env: Environment,
    network: ActorCritic,
    settings: Settings,
    axis: str,
    learner: Learner,
    numbers: Array,
    batch: Batch,
    advantage: Array,
    targets: Array,
) -> tuple[Learner, Metrics]:
    """All epochs over a batch."""
    every = Samples(
        batch.seen, batch.action, batch.log_prob, advantage,
        targets / learner.return_scale.unit,
    )  # fmt: skip
    every = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), every)
    rate = learning_rate(settings, learner.update)
    descend = functools.partial(_descend, env, network, settings, axis, rate)

    def epoch(
        state: tuple[Params, optax.OptState], number: Array
    ) -> tuple[tuple[Params, optax.OptState], Metrics]:
        rows = minibatches.rows(
            learner.key, learner.update, number, numbers,
            settings.num_steps, settings.group_envs, settings.num_minibatches,
        )  # fmt: skip
        mean, deviation = _moments(every.advantage[rows], axis)

        def minibatch(
            state: tuple[Params, optax.OptState], part: tuple[Array, Array, Array]
        ) -> tuple[tuple[Params, optax.OptState], Metrics]:
            rows, mean, deviation = part
            samples = jax.tree.map(lambda leaf: leaf[rows], every)
            normalised = (samples.advantage - mean) / (deviation + 1e-8)
            return descend(state, samples.replace(advantage=normalised))

        return jax.lax.scan(minibatch, state, (rows, mean, deviation))

    epochs = jnp.arange(settings.update_epochs, dtype=jnp.uint32)
    (params, state), metrics = jax.lax.scan(epoch, (learner.params, learner.optimiser), epochs)
    metrics = jax.lax.pmean(jax.tree.map(jnp.mean, metrics), axis)
    return learner.replace(params=params, optimiser=state), {**metrics, "train/lr": rate}


def _descend(
    env: Environment,
    network: ActorCritic,
    settings: Settings,
    axis: str,
    rate: Array,
    state: tuple[Params, optax.OptState],
    samples: Samples,
) -> tuple[tuple[Params, optax.OptState], Metrics]:
    """One gradient step, with the mean gradient of all devices."""
    params, adam = state

    def loss(params: Params) -> tuple[Array, Metrics]:
        observation, mask = env.decode(samples.seen)
        logits, values = outputs(network, params, observation)
        return clipped_loss(logits, values, mask, samples, settings)

    # Without pcast autodiff would sum over the axis by itself, and the mean of sums is N times
    # the gradient.
    own = jax.lax.pcast(params, axis, to="varying")
    gradient, metrics = jax.grad(loss, has_aux=True)(own)
    gradient = jax.lax.pmean(gradient, axis)
    changes, adam = optimiser(settings).update(gradient, adam, params)
    metrics["train/grad_norm"] = optax.tree.norm(gradient)
    params = jax.tree.map(lambda leaf, change: leaf - rate * change, params, changes)
    return (params, adam), metrics


def _moments(advantage: Array, axis: str) -> tuple[Array, Array]:
    """Mean and deviation [minibatches] over all devices, of [minibatches, samples] on this one."""
    mean = jax.lax.pmean(advantage.mean(-1), axis)
    variance = jax.lax.pmean(jnp.square(advantage - mean[:, None]).mean(-1), axis)
    return mean, jnp.sqrt(variance)
