"""Base class of actor-critic algorithms: rollout, advantages, gradient steps."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax

from hackmatrix.envs import Environment
from hackmatrix.game.tracing import on_cpu
from hackmatrix.networks.actor_critic import Network, Params
from hackmatrix.rl.draws import Purpose, key_for
from hackmatrix.rl.gradients import mean_gradient_of_microbatches
from hackmatrix.rl.learning import minibatches, return_scale
from hackmatrix.rl.learning.advantages import gae
from hackmatrix.rl.learning.learner import Learner
from hackmatrix.rl.learning.metrics import EXPLAINED_VARIANCE, GRAD_NORM, LR, RETURN_SCALE
from hackmatrix.rl.learning.settings import Settings, share_done, share_left
from hackmatrix.rl.reward_signal import RewardSignal, check_owned
from hackmatrix.rl.rollout import Batch, Players
from hackmatrix.rl.tally import Metrics, Tally

Array = jax.Array
# The mean loss over the samples of a minibatch, and what to know about it. The samples' leaves are
# [samples, ...]; what was worked out for the whole minibatch, over all devices, comes beside them.
Loss = Callable[[Params, Any, Any], tuple[Array, Metrics]]
_State = tuple[Params, optax.OptState]
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
        self, learner: Learner, players: Players, tally: Tally
    ) -> tuple[Players, Batch, Tally]:
        """The rollout of an update."""

    @abc.abstractmethod
    def learn(
        self, learner: Learner, numbers: Array, batch: Batch, advantage: Array
    ) -> tuple[Learner, Metrics]:
        """All epochs over a batch of the boards of these numbers [E], with advantages f32[T, E]."""

    @property
    def signal(self) -> RewardSignal:
        return RewardSignal.of(self.settings)

    @property
    def keeps_values(self) -> bool:
        """Whether values stay what they were in units of reward when the return scale changes."""
        return True

    def init(self, key: Array) -> Learner:
        """A learner that knows nothing yet."""
        params = self.network.init(key_for(key, Purpose.PARAMETERS))
        return Learner(
            params=params,
            optimiser=self._optimiser().init(params),
            return_scale=return_scale.initial_scale(),
            update=jnp.int32(0),
            key=key,
        )

    def acting(self, learner: Learner) -> Params:
        return learner.acting()

    def update(
        self, learner: Learner, players: Players, tally: Tally
    ) -> tuple[Learner, Players, Tally, Metrics]:
        players, batch, tally = self.play(learner, players, tally)
        advantage = self.advantages(batch, learner.update)
        targets = advantage + batch.value
        if self.settings.scale_returns:
            scale = return_scale.update(learner.return_scale, targets, self.axis)
            if self.keeps_values:
                learner = learner.with_scale(scale)
            else:
                learner = learner.replace(return_scale=scale)
        explained = return_scale.explained_variance(targets, batch.value, self.axis)
        learner, losses = self.learn(learner, players.number, batch, advantage)
        metrics = {
            **losses,
            EXPLAINED_VARIANCE: explained,
            RETURN_SCALE: learner.return_scale.unit,
        }
        return learner.replace(update=learner.update + 1), players, tally, metrics

    def advantages(self, batch: Batch, update: Array | int) -> Array:
        """Advantages f32[T, E] of what is learned from in an update. An episode that was cut off
        would still have been worth what it missed. The reward for each thing that a player came to
        own changes in the first part of a run.
        """
        signal, settings = self.signal, self.settings
        reward = signal.learned(batch.reward, batch.shaping)
        if batch.shaping is not None and batch.shaping.gained is not None:
            left = jnp.maximum(1 - share_done(settings, update) / _EXPLORING, 0)
            owned_more = (settings.owned_reward - settings.owned_reward_end) * left
            reward = reward + owned_more * batch.shaping.gained
        if batch.missed is not None:
            reward = reward + signal.gamma * batch.missed
        lam = settings.gae_lambda
        return gae(reward, batch.value, batch.ended, batch.last_value, signal.gamma, lam)

    def epochs(
        self,
        learner: Learner,
        numbers: Array,
        samples: Any,
        loss: Loss,
        prepare: Callable[[Array], Any] = lambda rows: (),
    ) -> tuple[Learner, Metrics]:
        """All epochs over the samples (leaves [T, E, ...]) of the boards of these numbers [E].
        `prepare` is given the rows i32[minibatches, samples] of an epoch, of the samples in one
        line, and tells what each minibatch needs besides them: leaves [minibatches, ...].
        """
        samples = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), samples)
        rate = self._learning_rate(learner.update)

        def epoch(state: _State, number: Array) -> tuple[_State, Metrics]:
            rows = minibatches.rows(learner.update_key, number, numbers, self.settings)
            return jax.lax.scan(minibatch, state, (rows, prepare(rows)))

        def minibatch(state: _State, part: tuple[Array, Any]) -> tuple[_State, Metrics]:
            rows, prepared = part

            def of_rows(params: Params, rows: Array) -> tuple[Array, Metrics]:
                chosen = jax.tree.map(lambda leaf: leaf[rows], samples)
                return loss(params, chosen, prepared)

            return self._step(state, of_rows, self._microbatches(rows), rate)

        each = jnp.arange(self.settings.update_epochs, dtype=jnp.uint32)
        state, metrics = jax.lax.scan(epoch, (learner.params, learner.optimiser), each)
        params, optimiser = state
        metrics = jax.lax.pmean(jax.tree.map(jnp.mean, metrics), self.axis)
        return learner.replace(params=params, optimiser=optimiser), {**metrics, LR: rate}

    def _step(
        self,
        state: _State,
        loss: Callable[[Params, Array], tuple[Array, Metrics]],
        microbatches: Array,
        rate: Array,
    ) -> tuple[_State, Metrics]:
        params, adam = state
        gradient, aux = mean_gradient_of_microbatches(loss, params, microbatches, self.axis)
        changes, adam = self._optimiser().update(gradient, adam, params)
        params = jax.tree.map(lambda leaf, change: leaf - rate * change, params, changes)
        return (params, adam), {**aux, GRAD_NORM: optax.tree.norm(gradient)}

    def _optimiser(self) -> optax.GradientTransformation:
        """Adam, but for the learning rate."""
        clip = optax.clip_by_global_norm(self.settings.max_grad_norm)
        return optax.chain(clip, optax.scale_by_adam(eps=1e-5))

    def _learning_rate(self, update: Array | int) -> Array:
        if not self.settings.anneal_lr:
            return jnp.float32(self.settings.lr)
        return self.settings.lr * share_left(self.settings, update)

    def _microbatches(self, rows: Array) -> Array:
        """i32[microbatches, samples]: the rows of a minibatch, as many as a CPU takes at a time."""
        fewest = -(-rows.size // self.network.torso.samples_at_once)
        fitting = (number for number in range(fewest, 2 * fewest) if rows.size % number == 0)
        return rows.reshape(next(fitting, 1) if on_cpu() else 1, -1)
