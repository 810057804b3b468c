"""Expert iteration: the network is trained towards the policy of a search that it guides.

Every action is chosen by a search. The search begins on a board that looks the same to the player,
with everything hidden drawn anew, so what is learned uses nothing that a player cannot know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct
from jax.scipy.special import xlogy

from hackmatrix.envs.metrics import Metric, Range, Section, Trend
from hackmatrix.errors import UserError
from hackmatrix.networks.actor_critic import Params
from hackmatrix.rl import distributions, rollout
from hackmatrix.rl.draws import Purpose, fold_in, gumbel
from hackmatrix.rl.learning import metrics
from hackmatrix.rl.learning.actor_critic import ActorCritic
from hackmatrix.rl.learning.learner import Learner
from hackmatrix.rl.rollout import Batch, Players, PolicyOutput
from hackmatrix.rl.tally import Metrics, Tally
from hackmatrix.search.settings import Settings
from hackmatrix.search.tree import TreeSearch

Array = jax.Array
_DISTANCE = "train/policy_distance"
SECTION = Section(
    "How it learns",
    (
        *metrics.OF_POLICY,
        Metric(_DISTANCE, "KL(search policy, network)", column="KL", digits=3),
        *metrics.OF_VALUES,
        *metrics.OF_DESCENT,
    ),
)


class Samples(struct.PyTreeNode):
    """What the loss needs of the steps of a minibatch: leaves [samples, ...]."""

    seen: Any  # the encoded observation and mask
    search_policy: Array  # f32[samples, A]: the target for the policy
    target: Array  # for the value, in units of the return scale


@dataclass(frozen=True)
class Expert(ActorCritic):
    """Expert iteration, an implementation of `hackmatrix.rl.algorithm.Algorithm`."""

    settings: Settings

    sections: ClassVar[tuple[Section, ...]] = (SECTION,)
    vital: ClassVar[tuple[str, ...]] = (_DISTANCE, metrics.VF_LOSS, metrics.GRAD_NORM)
    health: ClassVar[tuple[Range | Trend, ...]] = ()
    # mctx's loops begin with constants, which shard_map's type check rejects.
    types_are_checked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.env.can_redraw:
            raise UserError(
                f"algorithm=expert is not supported by {self.env.name}, whose hidden parts are "
                "unknown: its class must override Environment.redrawn (hackmatrix/envs/protocol.py)"
            )

    def play(
        self, learner: Learner, players: Players, tally: Tally
    ) -> tuple[Players, Batch, Tally]:
        params, evaluate = learner.acting(), learner.evaluating(self.network)
        search = TreeSearch(self.env, self.network, self.signal, self.settings.simulations)

        def decide(step: Array, players: Players, seen: Any) -> PolicyOutput:
            observation, mask = self.env.decode(seen)
            logits, value = evaluate(observation)
            keys = learner.update_key.each(Purpose.PLAN, step, players.number)
            search_keys, noise_keys = (fold_in(keys, number) for number in (0, 1))
            noise = gumbel(noise_keys, mask.shape[-1])
            found = search(params, search_keys, players.boards, mask, noise)
            log_prob = distributions.masked(logits, mask).log_prob(found.action)
            return PolicyOutput(found.action, log_prob, value, found.policy)

        return rollout.collect_decided(
            self.env,
            evaluate,
            decide,
            learner.update_key,
            self.settings.num_steps,
            players,
            tally,
        )

    def learn(
        self, learner: Learner, numbers: Array, batch: Batch, advantage: Array
    ) -> tuple[Learner, Metrics]:
        assert batch.search_policy is not None
        targets = (advantage + batch.value) / learner.return_scale.unit
        samples = Samples(batch.seen, batch.search_policy, targets)

        def loss(params: Params, chosen: Samples, _: Any) -> tuple[Array, Metrics]:
            observation, mask = self.env.decode(chosen.seen)
            logits, values = self.network(params, observation)
            policy = distributions.masked(logits, mask)
            target = chosen.search_policy
            policy_loss = (xlogy(target, target) - target * policy.logits).sum(-1).mean()
            value_loss = 0.5 * jnp.square(values - chosen.target).mean()
            aux = {
                _DISTANCE: policy_loss,
                metrics.VF_LOSS: value_loss,
                metrics.ENTROPY: policy.entropy().mean(),
            }
            return policy_loss + self.settings.vf_coef * value_loss, aux

        return self.epochs(learner, numbers, samples, loss)
