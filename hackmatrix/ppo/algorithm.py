"""Proximal policy optimisation: a rollout, its advantages, epochs of minibatches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import Range, Section, Trend
from hackmatrix.networks.actor_critic import Network, Params
from hackmatrix.ppo import metrics
from hackmatrix.ppo.loss import Samples, clipped_loss
from hackmatrix.ppo.settings import Settings
from hackmatrix.rl import return_scale, rollout
from hackmatrix.rl.learning import advantages
from hackmatrix.rl.learning.descent import GRAD_NORM, Descent
from hackmatrix.rl.learning.learner import Learner, first_learner
from hackmatrix.rl.rollout import Batch, Players
from hackmatrix.rl.signal import Signal
from hackmatrix.rl.tally import Metrics, Tally

Array = jax.Array
Moments = tuple[Array, Array]


@dataclass(frozen=True)
class PPO:
    """The algorithm, as `hackmatrix.rl.algorithm.Algorithm` describes one."""

    env: Environment
    network: Network
    settings: Settings
    axis: str

    sections: ClassVar[tuple[Section, ...]] = (metrics.SECTION,)
    vital: ClassVar[tuple[str, ...]] = (metrics.PG_LOSS, metrics.VF_LOSS, GRAD_NORM)

    def __post_init__(self) -> None:
        self.signal.check(self.env)

    @property
    def signal(self) -> Signal:
        return Signal.of(self.settings)

    @property
    def descent(self) -> Descent:
        return Descent(self.settings, self.axis)

    @property
    def health(self) -> tuple[Range | Trend, ...]:
        return metrics.HEALTH + (() if self.settings.anneal_lr else (metrics.OF_A_STEADY_RATE,))

    def init(self, key: Array) -> Learner:
        return first_learner(self.network, self.descent, key)

    def update(
        self, learner: Learner, players: Players, counted: Tally
    ) -> tuple[Learner, Players, Tally, Metrics]:
        players, batch, counted = self.play(learner, players, counted)
        advantage = self.advantages(batch)
        targets = advantage + batch.value
        if self.settings.scale_returns:
            scale = return_scale.learn(learner.return_scale, targets, self.axis)
            # The values of a network that knows nothing yet need not be kept.
            started = self.settings.start_from is not None
            learner = learner.with_scale(scale) if started else learner.replace(return_scale=scale)
        explained = return_scale.explained_variance(targets, batch.value, self.axis)
        learner, losses = self.learn(learner, players.number, batch, advantage)
        told = {
            **losses,
            metrics.EXPLAINED_VARIANCE: explained,
            metrics.RETURN_SCALE: learner.return_scale.unit,
        }
        return learner.replace(update=learner.update + 1), players, counted, told

    def acting(self, learner: Learner) -> Params:
        return learner.acting()

    def play(
        self, learner: Learner, players: Players, counted: Tally
    ) -> tuple[Players, Batch, Tally]:
        """The rollout of an update."""
        evaluate, steps = learner.evaluating(self.network), self.settings.num_steps
        return rollout.collect(self.env, evaluate, learner.update_key, steps, players, counted)

    def learn(
        self, learner: Learner, numbers: Array, batch: Batch, advantage: Array
    ) -> tuple[Learner, Metrics]:
        """All epochs over a batch of the boards of these numbers [E], with advantages f32[T, E]."""
        targets = (advantage + batch.value) / learner.return_scale.unit
        samples = Samples(batch.seen, batch.action, batch.log_prob, advantage, targets)

        def loss(params: Params, chosen: Samples, moments: Moments) -> tuple[Array, Metrics]:
            mean, deviation = moments
            normalised = (chosen.advantage - mean) / (deviation + 1e-8)
            chosen = chosen.replace(advantage=normalised)
            observation, mask = self.env.decode(chosen.seen)
            logits, values = self.network(params, observation)
            return clipped_loss(logits, values, mask, chosen, self.settings)

        (params, optimiser), told = self.descent.epochs(
            (learner.params, learner.optimiser),
            learner.update_key,
            numbers,
            samples,
            loss,
            lambda rows: self._moments(advantage.reshape(-1)[rows]),
        )
        return learner.replace(params=params, optimiser=optimiser), told

    def advantages(self, batch: Batch) -> Array:
        """f32[T, E]. An episode that was cut off would still have been worth what it missed."""
        return advantages.of(batch, self.signal, self.settings.gae_lambda)

    def _moments(self, advantage: Array) -> Moments:
        """Mean and deviation [minibatches] over all devices, of [minibatches, samples] here."""
        mean = jax.lax.pmean(advantage.mean(-1), self.axis)
        variance = jax.lax.pmean(jnp.square(advantage - mean[:, None]).mean(-1), self.axis)
        return mean, jnp.sqrt(variance)
