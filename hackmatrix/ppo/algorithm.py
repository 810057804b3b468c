"""Proximal policy optimisation: a rollout, its advantages, epochs over its minibatches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from hackmatrix.envs.metrics import Range, Section, Trend
from hackmatrix.networks.actor_critic import Params
from hackmatrix.ppo import metrics
from hackmatrix.ppo.loss import Samples, clipped_loss
from hackmatrix.ppo.settings import Settings
from hackmatrix.rl import rollout
from hackmatrix.rl.learning.actor_critic import ActorCritic
from hackmatrix.rl.learning.learner import Learner
from hackmatrix.rl.learning.metrics import GRAD_NORM, VF_LOSS
from hackmatrix.rl.learning.settings import share_left
from hackmatrix.rl.rollout import Batch, Players
from hackmatrix.rl.tally import Metrics, Tally

Array = jax.Array
Moments = tuple[Array, Array]


@dataclass(frozen=True)
class PPO(ActorCritic):
    """PPO, an implementation of `hackmatrix.rl.algorithm.Algorithm`."""

    settings: Settings

    inputs: ClassVar[tuple[str, ...]] = (
        *ActorCritic.inputs, "clip_eps", "ent_coef", "ent_coef_at_end",
    )  # fmt: skip
    sections: ClassVar[tuple[Section, ...]] = (metrics.SECTION,)
    vital: ClassVar[tuple[str, ...]] = (metrics.PG_LOSS, VF_LOSS, GRAD_NORM)

    @property
    def health(self) -> tuple[Range | Trend, ...]:
        settings = self.settings
        # The KL divergence that a constant rate should reach is 0 before the second step.
        if settings.anneal_lr or settings.num_minibatches * settings.update_epochs == 1:
            return metrics.HEALTH
        return *metrics.HEALTH, metrics.CONSTANT_LR_HEALTH

    def entropy_weight(self, update: Array) -> Array:
        """Interpolates linearly from `ent_coef` at first to `ent_coef_at_end` at last. Override it
        for another schedule.
        """
        begin, end = self.settings.ent_coef, self.settings.ent_coef_at_end
        return end + (begin - end) * share_left(self.settings, update)

    @property
    def keeps_values(self) -> bool:
        """True for a run that starts from another agent, whose values are already learned. A new
        network's value head is not rescaled: it follows the return scale as it learns.
        """
        return self.settings.starts_from_another

    def play(
        self, learner: Learner, players: Players, tally: Tally
    ) -> tuple[Players, Batch, Tally]:
        evaluate, steps = learner.evaluating(self.network), self.settings.num_steps
        return rollout.collect(self.env, evaluate, learner.update_key, steps, players, tally)

    def learn(
        self, learner: Learner, numbers: Array, batch: Batch, advantage: Array
    ) -> tuple[Learner, Metrics]:
        targets = (advantage + batch.value) / learner.return_scale.unit
        samples = Samples(batch.seen, batch.action, batch.log_prob, advantage, targets)
        weight = self.entropy_weight(learner.update)

        def loss(params: Params, chosen: Samples, moments: Moments) -> tuple[Array, Metrics]:
            mean, deviation = moments
            normalised = (chosen.advantage - mean) / (deviation + 1e-8)
            return self.loss(params, chosen.replace(advantage=normalised), weight)

        def prepare(rows: Array) -> Moments:
            return self._moments(advantage.reshape(-1)[rows])

        return self.epochs(learner, numbers, samples, loss, prepare)

    def loss(
        self, params: Params, samples: Samples, entropy_weight: Array | float
    ) -> tuple[Array, Metrics]:
        """Returns the mean loss over samples of a minibatch, and its metrics. Override it to add a
        term to the loss.
        """
        observation, mask = self.env.decode(samples.seen)
        logits, values = self.network(params, observation)
        return clipped_loss(logits, values, mask, samples, self.settings, entropy_weight)

    def _moments(self, advantage: Array) -> Moments:
        """Returns the mean and standard deviation of each minibatch, f32[minibatches], over the
        samples of all devices; `advantage` f32[minibatches, samples] has those of this device. A
        single sample, which would become 0, is left as it is.
        """
        if advantage.shape[-1] * jax.lax.axis_size(self.axis) == 1:
            number, kind = len(advantage), advantage.dtype
            return jnp.zeros(number, kind), jnp.ones(number, kind)
        mean = jax.lax.pmean(advantage.mean(-1), self.axis)
        variance = jax.lax.pmean(jnp.square(advantage - mean[:, None]).mean(-1), self.axis)
        return mean, jnp.sqrt(variance)
