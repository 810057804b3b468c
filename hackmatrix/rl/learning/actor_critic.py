"""Base class of actor-critic algorithms: rollout, advantages, gradient steps."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from hackmatrix.envs import Environment
from hackmatrix.networks.actor_critic import Network, Params
from hackmatrix.rl import return_scale
from hackmatrix.rl.learning import advantages, metrics
from hackmatrix.rl.learning.descent import Descent
from hackmatrix.rl.learning.learner import Learner, first_learner
from hackmatrix.rl.learning.settings import Settings, share_done
from hackmatrix.rl.rollout import Batch, Players
from hackmatrix.rl.signal import Signal, check_owned
from hackmatrix.rl.tally import Metrics, Tally

Array = jax.Array
_EXPLORING = 0.5  # of a run: until then the reward for possessions changes


@dataclass(frozen=True)
class ActorCritic(abc.ABC):
    """An update but for its halves, `play` and `learn`."""

    env: Environment
    network: Network
    settings: Settings
    axis: str

    inputs: ClassVar[tuple[str, ...]] = (
        "lr", "num_updates", "extra_updates", "gamma", "gae_lambda", "vf_coef", "max_grad_norm",
    )  # fmt: skip

    def __post_init__(self) -> None:
        self.signal.check(self.env)
        if self.settings.owned_reward:
            check_owned(self.env, "owned_reward", self.settings.owned_reward)

    @abc.abstractmethod
    def play(
        self, learner: Learner, players: Players, counted: Tally
    ) -> tuple[Players, Batch, Tally]:
        """The rollout of an update."""

    @abc.abstractmethod
    def learn(
        self, learner: Learner, numbers: Array, batch: Batch, advantage: Array
    ) -> tuple[Learner, Metrics]:
        """All epochs over a batch of the boards of these numbers [E], with advantages f32[T, E]."""

    @property
    def signal(self) -> Signal:
        return Signal.of(self.settings)

    @property
    def descent(self) -> Descent:
        return Descent(self.settings, self.axis, self.network.torso.samples_at_once)

    def init(self, key: Array) -> Learner:
        return first_learner(self.network, self.descent, key)

    def acting(self, learner: Learner) -> Params:
        return learner.acting()

    def update(
        self, learner: Learner, players: Players, counted: Tally
    ) -> tuple[Learner, Players, Tally, Metrics]:
        players, batch, counted = self.play(learner, players, counted)
        advantage = self.advantages(batch, learner.update)
        targets = advantage + batch.value
        if self.settings.scale_returns:
            scale = return_scale.learn(learner.return_scale, targets, self.axis)
            learner = self.rescaled(learner, scale)
        explained = return_scale.explained_variance(targets, batch.value, self.axis)
        learner, losses = self.learn(learner, players.number, batch, advantage)
        told = {
            **losses,
            metrics.EXPLAINED_VARIANCE: explained,
            metrics.RETURN_SCALE: learner.return_scale.unit,
        }
        return learner.replace(update=learner.update + 1), players, counted, told

    def advantages(self, batch: Batch, update: Array | int) -> Array:
        """f32[T, E]: of what is learned from in an update."""
        left = jnp.maximum(1 - share_done(self.settings, update) / _EXPLORING, 0)
        more = self.settings.owned_reward - self.settings.owned_reward_end
        return advantages.of(batch, self.signal, self.settings.gae_lambda, more * left)

    def rescaled(self, learner: Learner, scale: return_scale.ReturnScale) -> Learner:
        """The learner with values in units of another scale."""
        return learner.with_scale(scale)
