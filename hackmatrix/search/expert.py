"""Expert iteration: the network learns what a search found that was guided by the network.

Every action is the one that a search took, on a board that looks the same to the player with what
is hidden drawn anew; so what is learned needs no knowledge that a player does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import PERCENT, Metric, Range, Section, Trend
from hackmatrix.errors import UserError
from hackmatrix.networks.actor_critic import Network, Params
from hackmatrix.rl import distributions, return_scale, rollout
from hackmatrix.rl.learning import advantages, descent
from hackmatrix.rl.learning.descent import Descent
from hackmatrix.rl.learning.learner import Learner, first_learner
from hackmatrix.rl.rollout import Batch, Decision, Players, planning_keys
from hackmatrix.rl.signal import Signal
from hackmatrix.rl.tally import Metrics, Tally
from hackmatrix.search.settings import Settings
from hackmatrix.search.tree import TreeSearch

Array = jax.Array
_DISTANCE, _VALUE_LOSS, _ENTROPY = "train/policy_distance", "train/vf_loss", "train/entropy"
_EXPLAINED, _SCALE = "train/explained_variance", "train/return_scale"
SECTION = Section(
    "How it learns",
    (
        Metric(_ENTROPY, "entropy, nats", column="entropy"),
        Metric(_DISTANCE, "KL from the policy to what the search found", column="KL", digits=3),
        Metric(_EXPLAINED, "variance explained by the values", PERCENT),
        Metric(_VALUE_LOSS, "value loss"),
        Metric(_SCALE, "unit of the values"),
        *descent.METRICS,
    ),
)


class NotForSearch(UserError):
    """An environment that cannot be searched."""


class Samples(struct.PyTreeNode):
    """What the loss needs of the steps of a minibatch: leaves [samples, ...]."""

    seen: Any
    better: Array  # the policy to learn, f32[samples, A]
    target: Array  # for the value


@dataclass(frozen=True)
class Expert:
    """The algorithm, as `hackmatrix.rl.algorithm.Algorithm` describes one."""

    env: Environment
    network: Network
    settings: Settings
    axis: str

    sections: ClassVar[tuple[Section, ...]] = (SECTION,)
    vital: ClassVar[tuple[str, ...]] = (_DISTANCE, _VALUE_LOSS, descent.GRAD_NORM)
    health: ClassVar[tuple[Range | Trend, ...]] = ()
    # The tree's loops begin with constants, which the check of shard_map takes for a mistake.
    types_are_checked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.signal.check(self.env)
        if not self.env.tells_what_is_hidden:
            raise NotForSearch(
                f"algorithm=expert is not for {self.env.name}, whose hidden parts are unknown"
            )

    @property
    def signal(self) -> Signal:
        return Signal.of(self.settings)

    @property
    def descent(self) -> Descent:
        return Descent(self.settings, self.axis)

    def init(self, key: Array) -> Learner:
        return first_learner(self.network, self.descent, key)

    def acting(self, learner: Learner) -> Params:
        return learner.acting()

    def update(
        self, learner: Learner, players: Players, counted: Tally
    ) -> tuple[Learner, Players, Tally, Metrics]:
        players, batch, counted = self.play(learner, players, counted)
        advantage = advantages.of(batch, self.signal, self.settings.gae_lambda)
        targets = advantage + batch.value
        if self.settings.scale_returns:
            scale = return_scale.learn(learner.return_scale, targets, self.axis)
            learner = learner.with_scale(scale)
        explained = return_scale.explained_variance(targets, batch.value, self.axis)
        learner, losses = self.learn(learner, players.number, batch, targets)
        told = {**losses, _EXPLAINED: explained, _SCALE: learner.return_scale.unit}
        return learner.replace(update=learner.update + 1), players, counted, told

    def play(
        self, learner: Learner, players: Players, counted: Tally
    ) -> tuple[Players, Batch, Tally]:
        """The rollout of an update, each step of it searched."""
        params, evaluate = learner.acting(), learner.evaluating(self.network)
        search = TreeSearch(self.env, self.network, self.signal, self.settings.simulations)

        def decide(step: Array, players: Players, seen: Any) -> Decision:
            observation, mask = self.env.decode(seen)
            logits, value = evaluate(observation)
            keys = planning_keys(learner.update_key, step, players.number)
            hidden, noise = (
                jax.vmap(jax.random.fold_in, (0, None))(keys, number) for number in (0, 1)
            )
            boards = self.env.redrawn(jax.random.key_data(hidden), players.boards)
            explore = jax.vmap(lambda key: jax.random.gumbel(key, (mask.shape[-1],)))(noise)
            found = search(params, hidden, boards, mask, explore)
            log_prob = distributions.masked(logits, mask).log_prob(found.action)
            return Decision(found.action, log_prob, value, found.policy)

        return rollout.collect_decided(
            self.env,
            evaluate,
            decide,
            learner.update_key,
            self.settings.num_steps,
            players,
            counted,
        )

    def learn(
        self, learner: Learner, numbers: Array, batch: Batch, targets: Array
    ) -> tuple[Learner, Metrics]:
        """All epochs over a batch of the boards of these numbers [E], with targets f32[T, E] of the
        values.
        """
        assert batch.better is not None
        samples = Samples(batch.seen, batch.better, targets / learner.return_scale.unit)

        def loss(params: Params, chosen: Samples, _: Any) -> tuple[Array, Metrics]:
            observation, mask = self.env.decode(chosen.seen)
            logits, values = self.network(params, observation)
            policy = distributions.masked(logits, mask)
            log_better = jax.scipy.special.xlogy(chosen.better, chosen.better)
            policy_loss = (log_better - chosen.better * policy.logits).sum(-1).mean()
            value_loss = 0.5 * jnp.square(values - chosen.target).mean()
            told = {
                _DISTANCE: policy_loss,
                _VALUE_LOSS: value_loss,
                _ENTROPY: policy.entropy().mean(),
            }
            return policy_loss + self.settings.vf_coef * value_loss, told

        (params, optimiser), told = self.descent.epochs(
            (learner.params, learner.optimiser), learner.update_key, numbers, samples, loss
        )
        return learner.replace(params=params, optimiser=optimiser), told
