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
from hackmatrix.rl.learning.rows import rows_of
from hackmatrix.rl.learning.settings import Settings, share_done, share_left
from hackmatrix.rl.reward_signal import RewardSignal, check_owned
from hackmatrix.rl.rollout import Batch, Players
from hackmatrix.rl.tally import Metrics, Tally

Array = jax.Array
# From parameters, samples (leaves [samples, ...]) and what was prepared for their whole minibatch
# to the mean loss over these samples, and metrics.
Loss = Callable[[Params, Any, Any], tuple[Array, Metrics]]
_State = tuple[Params, optax.OptState]
_OWNED_REWARD_UNTIL = 0.5  # the fraction of a run over which the reward for possessions changes


@dataclass(frozen=True)
class ActorCritic(abc.ABC):
    """An actor-critic algorithm. Subclasses implement the two halves of its update, `play` and
    `learn`.
    """

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
        """Plays the rollout of an update."""

    @abc.abstractmethod
    def learn(
        self, learner: Learner, numbers: Array, batch: Batch, advantage: Array
    ) -> tuple[Learner, Metrics]:
        """Trains on a batch with advantages f32[T, E]. `numbers` [E] are those of its boards."""

    @property
    def signal(self) -> RewardSignal:
        return RewardSignal.of(self.settings)

    @property
    def keeps_values(self) -> bool:
        """Whether the value head is rescaled when the return scale changes, so that values in units
        of reward stay the same.
        """
        return True

    def optimiser(self) -> optax.GradientTransformation:
        """Returns gradient clipping and Adam, without the learning rate, which multiplies the
        result. Override it for another optimiser.
        """
        clip = optax.clip_by_global_norm(self.settings.max_grad_norm)
        return optax.chain(clip, optax.scale_by_adam(eps=1e-5))

    def learning_rate(self, update: Array | int) -> Array:
        """Returns the learning rate of the update with this index. Override it for another
        schedule.
        """
        if not self.settings.anneal_lr:
            return jnp.float32(self.settings.lr)
        return self.settings.lr * share_left(self.settings, update)

    def init(self, key: Array) -> Learner:
        """Returns an untrained learner."""
        params = self.network.init(key_for(key, Purpose.PARAMETERS))
        return Learner(
            params=params,
            optimiser=self.optimiser().init(params),
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
        """Returns the advantages f32[T, E] of a batch, for the shaped rewards. Truncated episodes
        are bootstrapped with `missed`. The reward for each possession gained moves linearly from
        `owned_reward` to `owned_reward_end` over the first half of a run.
        """
        signal, settings = self.signal, self.settings
        reward = signal.learned(batch.reward, batch.shaping)
        if batch.shaping is not None and batch.shaping.gained is not None:
            left = jnp.maximum(1 - share_done(settings, update) / _OWNED_REWARD_UNTIL, 0)
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
        """Runs all epochs of gradient steps over samples (leaves [T, E, ...]) of the boards with
        these numbers [E]. `prepare` maps the rows i32[minibatches, samples] of an epoch, indices
        into the [T * E] samples, to what the loss needs of whole minibatches: leaves
        [minibatches, ...].
        """
        samples = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), samples)
        rate = self.learning_rate(learner.update)
        take = rows_of(samples)

        def epoch(state: _State, number: Array) -> tuple[_State, Metrics]:
            rows = minibatches.rows(learner.update_key, number, numbers, self.settings)
            return jax.lax.scan(minibatch, state, (rows, prepare(rows)))

        def minibatch(state: _State, part: tuple[Array, Any]) -> tuple[_State, Metrics]:
            rows, prepared = part

            def loss_of_rows(params: Params, rows: Array) -> tuple[Array, Metrics]:
                return loss(params, take(rows), prepared)

            return self._step(state, loss_of_rows, self._microbatches(rows), rate)

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
        changes, adam = self.optimiser().update(gradient, adam, params)
        params = jax.tree.map(lambda leaf, change: leaf - rate * change, params, changes)
        return (params, adam), {**aux, GRAD_NORM: optax.tree.norm(gradient)}

    def _microbatches(self, rows: Array) -> Array:
        """Splits the rows of a minibatch into i32[microbatches, samples]. On a CPU a microbatch has
        at most the torso's `samples_at_once`. If equal microbatches would have to be twice the
        fewest possible or more, or on other devices, the whole minibatch is one.
        """
        fewest = -(-rows.size // self.network.torso.samples_at_once)
        fitting = (number for number in range(fewest, 2 * fewest) if rows.size % number == 0)
        return rows.reshape(next(fitting, 1) if on_cpu() else 1, -1)
