"""Proximal policy optimisation: a rollout, its advantages, epochs of minibatches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import optax
from flax import struct

from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import Range, Section, Trend
from hackmatrix.envs.protocol import Parts
from hackmatrix.errors import UserError
from hackmatrix.networks.actor_critic import Network, Params, with_value_unit
from hackmatrix.ppo import advantages, metrics, minibatches
from hackmatrix.ppo.loss import Samples, clipped_loss
from hackmatrix.ppo.settings import Settings
from hackmatrix.rl import return_scale, rollout
from hackmatrix.rl.draws import Purpose, key_for
from hackmatrix.rl.return_scale import ReturnScale
from hackmatrix.rl.rollout import Batch, Players, UpdateKey
from hackmatrix.rl.tally import Metrics, Tally

Array = jax.Array
State = tuple[Params, optax.OptState]


class Learner(struct.PyTreeNode):
    """What is learned, and what the next update depends on besides the boards."""

    params: Params
    optimiser: optax.OptState
    return_scale: ReturnScale
    update: Array  # i32: the updates done
    key: Array  # of the seed


class NoPotential(UserError):
    """A setting that asks for what the environment does not have."""


@dataclass(frozen=True)
class PPO:
    """The algorithm, as `hackmatrix.rl.algorithm.Algorithm` describes one."""

    env: Environment
    network: Network
    settings: Settings
    axis: str

    sections: ClassVar[tuple[Section, ...]] = (metrics.SECTION,)
    vital: ClassVar[tuple[str, ...]] = (metrics.PG_LOSS, metrics.VF_LOSS, metrics.GRAD_NORM)

    def __post_init__(self) -> None:
        if self.settings.potential_shaping and not self.env.has_potential:
            raise NoPotential(
                f"potential_shaping=True is not for {self.env.name}, which has no potential"
            )

    @property
    def health(self) -> tuple[Range | Trend, ...]:
        return metrics.HEALTH + (() if self.settings.anneal_lr else (metrics.OF_A_STEADY_RATE,))

    def init(self, key: Array) -> Learner:
        params = self.network.init(key_for(key, Purpose.PARAMETERS))
        return Learner(
            params=params,
            optimiser=self._optimiser().init(params),
            return_scale=return_scale.unknown_scale(),
            update=jnp.int32(0),
            key=key,
        )

    def update(
        self, learner: Learner, players: Players, counted: Tally
    ) -> tuple[Learner, Players, Tally, Metrics]:
        players, batch, counted = self.play(learner, players, counted)
        advantage = self.advantages(batch)
        targets = advantage + batch.value
        if self.settings.scale_returns:
            scale = return_scale.learn(learner.return_scale, targets, self.axis)
            learner = learner.replace(return_scale=scale)
        explained = return_scale.explained_variance(targets, batch.value, self.axis)
        learner, losses = self.learn(learner, players.number, batch, advantage)
        told = {
            **losses,
            metrics.EXPLAINED_VARIANCE: explained,
            metrics.RETURN_SCALE: learner.return_scale.unit,
        }
        return learner.replace(update=learner.update + 1), players, counted, told

    def acting(self, learner: Learner) -> Params:
        return with_value_unit(learner.params, learner.return_scale.unit)

    def play(
        self, learner: Learner, players: Players, counted: Tally
    ) -> tuple[Players, Batch, Tally]:
        """The rollout of an update."""
        unit = learner.return_scale.unit

        def evaluate(observation: Parts) -> tuple[Array, Array]:
            logits, value = self.network(learner.params, observation)
            return logits, value * unit

        key = UpdateKey(learner.key, learner.update)
        return rollout.collect(self.env, evaluate, key, self.settings.num_steps, players, counted)

    def learn(
        self, learner: Learner, numbers: Array, batch: Batch, advantage: Array
    ) -> tuple[Learner, Metrics]:
        """All epochs over a batch of the boards of these numbers [E], with advantages f32[T, E]."""
        targets = (advantage + batch.value) / learner.return_scale.unit
        samples = Samples(batch.seen, batch.action, batch.log_prob, advantage, targets)
        samples = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), samples)
        rate = self._learning_rate(learner.update)

        def epoch(state: State, number: Array) -> tuple[State, Metrics]:
            rows = minibatches.rows(
                UpdateKey(learner.key, learner.update), number, numbers, self.settings
            )
            mean, deviation = self._moments(samples.advantage[rows])

            def minibatch(state: State, part: tuple[Array, ...]) -> tuple[State, Metrics]:
                rows, mean, deviation = part
                chosen = jax.tree.map(lambda leaf: leaf[rows], samples)
                normalised = (chosen.advantage - mean) / (deviation + 1e-8)
                return self._descend(state, chosen.replace(advantage=normalised), rate)

            return jax.lax.scan(minibatch, state, (rows, mean, deviation))

        epochs = jnp.arange(self.settings.update_epochs, dtype=jnp.uint32)
        (params, state), told = jax.lax.scan(epoch, (learner.params, learner.optimiser), epochs)
        told = jax.lax.pmean(jax.tree.map(jnp.mean, told), self.axis)
        return learner.replace(params=params, optimiser=state), {**told, metrics.LR: rate}

    def advantages(self, batch: Batch) -> Array:
        """f32[T, E]. An episode that was cut off would still have been worth what it missed."""
        gamma, reward = self.settings.gamma, batch.reward
        if self.settings.potential_shaping and batch.shaping is not None:
            reward = reward + batch.shaping.potential_based(gamma)
        if batch.missed is not None:
            reward = reward + gamma * batch.missed
        return advantages.estimate(
            reward, batch.value, batch.ended, batch.last_value, gamma, self.settings.gae_lambda
        )

    def _descend(self, state: State, samples: Samples, rate: Array) -> tuple[State, Metrics]:
        """One gradient step, with the mean gradient of all devices."""
        params, adam = state

        def loss(params: Params) -> tuple[Array, Metrics]:
            observation, mask = self.env.decode(samples.seen)
            logits, values = self.network(params, observation)
            return clipped_loss(logits, values, mask, samples, self.settings)

        # Without pcast autodiff would sum over the axis by itself, and the mean of sums is N times
        # the gradient.
        own = jax.lax.pcast(params, self.axis, to="varying")
        gradient, told = jax.grad(loss, has_aux=True)(own)
        gradient = jax.lax.pmean(gradient, self.axis)
        changes, adam = self._optimiser().update(gradient, adam, params)
        told[metrics.GRAD_NORM] = optax.tree.norm(gradient)
        params = jax.tree.map(lambda leaf, change: leaf - rate * change, params, changes)
        return (params, adam), told

    def _optimiser(self) -> optax.GradientTransformation:
        """Adam, but for the learning rate."""
        clip = optax.clip_by_global_norm(self.settings.max_grad_norm)
        return optax.chain(clip, optax.scale_by_adam(eps=1e-5))

    def _learning_rate(self, update: Array) -> Array:
        if not self.settings.anneal_lr:
            return jnp.float32(self.settings.lr)
        return self.settings.lr * jnp.maximum(1 - update / self.settings.num_updates, 0)

    def _moments(self, advantage: Array) -> tuple[Array, Array]:
        """Mean and deviation [minibatches] over all devices, of [minibatches, samples] here."""
        mean = jax.lax.pmean(advantage.mean(-1), self.axis)
        variance = jax.lax.pmean(jnp.square(advantage - mean[:, None]).mean(-1), self.axis)
        return mean, jnp.sqrt(variance)
