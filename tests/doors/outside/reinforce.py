"""REINFORCE with a baseline, from outside the package. It learns no values to bootstrap with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from flax import struct

from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import Metric, Section
from hackmatrix.networks.actor_critic import Network, Params
from hackmatrix.rl import distributions, rollout
from hackmatrix.rl.draws import Purpose, key_for
from hackmatrix.rl.gradients import mean_gradient
from hackmatrix.rl.rollout import Batch, Players, UpdateKey
from hackmatrix.rl.tally import Metrics, Tally
from hackmatrix.train.config import Config, setting
from hackmatrix.train.config.rules import SHARE

Array = jax.Array


@dataclass(frozen=True)
class ReinforceConfig(Config):
    """The trainer's settings, and the decay of the baseline, a moving average of returns."""

    baseline_decay: float = setting(0.9, SHARE, since=4, before=0.8)


class Learner(struct.PyTreeNode):
    params: Params
    optimiser: optax.OptState
    baseline: Array
    update: Array
    key: Array


@dataclass(frozen=True)
class Reinforce:
    env: Environment
    network: Network
    config: ReinforceConfig
    axis: str

    config_class: ClassVar[type[Config]] = ReinforceConfig
    sections = (Section("How it learns", (Metric("train/loss", "loss", column="loss"),)),)
    vital = ("train/loss",)
    health = ()

    def init(self, key: Array) -> Learner:
        params = self.network.init(key_for(key, Purpose.PARAMETERS))
        state = optax.adam(self.config.lr).init(params)
        return Learner(params, state, jnp.float32(0), jnp.int32(0), key)

    def update(
        self, learner: Learner, players: Players, tally: Tally
    ) -> tuple[Learner, Players, Tally, Metrics]:
        def apply(parts: Any) -> tuple[Array, Array]:
            return self.network(learner.params, parts)

        update_key = UpdateKey(learner.key, learner.update)
        players, batch, tally = rollout.collect(
            self.env, apply, update_key, self.config.num_steps, players, tally
        )
        returns = self._returns(batch)
        loss = partial(self._loss, batch=batch, advantage=returns - learner.baseline)
        gradient, metrics = mean_gradient(loss, learner.params, self.axis)
        metrics, mean_return = jax.lax.pmean((metrics, returns.mean()), self.axis)
        updates, state = optax.adam(self.config.lr).update(gradient, learner.optimiser)
        decay = self.config.baseline_decay
        learner = learner.replace(
            params=optax.apply_updates(learner.params, updates),
            optimiser=state,
            baseline=decay * learner.baseline + (1 - decay) * mean_return,
            update=learner.update + 1,
        )
        return learner, players, tally, metrics

    def acting(self, learner: Learner) -> Params:
        return learner.params

    def _returns(self, batch: Batch) -> Array:
        def discount(later: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
            reward, ended = step
            return (total := reward + self.config.gamma * later * ~ended), total

        last = jnp.zeros_like(batch.last_value)
        return jax.lax.scan(discount, last, (batch.reward, batch.ended), reverse=True)[1]

    def _loss(self, params: Params, batch: Batch, advantage: Array) -> tuple[Array, Metrics]:
        parts, mask = jax.vmap(self.env.decode)(batch.seen)
        policy = distributions.masked(self.network(params, parts)[0], mask)
        loss = -(policy.log_prob(batch.action) * advantage).mean()
        return loss, {"train/loss": loss}
