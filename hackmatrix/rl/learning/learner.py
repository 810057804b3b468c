"""What is learned by an algorithm that descends on a policy and values."""

from __future__ import annotations

import jax
import optax
from flax import struct

from hackmatrix.envs.protocol import Parts
from hackmatrix.networks.actor_critic import Network, Params, with_value_unit
from hackmatrix.rl.learning.return_scale import ReturnScale
from hackmatrix.rl.rollout import Evaluate, UpdateKey

Array = jax.Array


class Learner(struct.PyTreeNode):
    """What is learned, and what the next update depends on besides the boards. The parameters'
    values are in units of the return scale.
    """

    params: Params
    optimiser: optax.OptState
    return_scale: ReturnScale
    update: Array  # i32: the updates done
    key: Array  # of the seed

    @property
    def update_key(self) -> UpdateKey:
        return UpdateKey(self.key, self.update)

    def acting(self) -> Params:
        """The parameters with values in units of reward."""
        return with_value_unit(self.params, self.return_scale.unit)

    def evaluating(self, network: Network) -> Evaluate:
        """The network with values in units of reward."""
        unit = self.return_scale.unit

        def evaluate(observation: Parts) -> tuple[Array, Array]:
            logits, value = network(self.params, observation)
            return logits, value * unit

        return evaluate

    def with_scale(self, scale: ReturnScale) -> Learner:
        """The learner with values in another unit: they stay what they were in units of reward."""
        change = self.return_scale.unit / scale.unit
        params = with_value_unit(self.params, change)
        changed: Learner = self.replace(params=params, return_scale=scale)
        return changed
