"""The learner of actor-critic algorithms."""

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
    """All state of a run besides the players. With `params` as they are, the network's values are
    in units of the return scale.
    """

    params: Params
    optimiser: optax.OptState
    return_scale: ReturnScale
    update: Array  # i32: the number of updates done
    key: Array  # of the run's seed

    @property
    def update_key(self) -> UpdateKey:
        return UpdateKey(self.key, self.update)

    def acting(self) -> Params:
        """Returns the parameters with which the network's values are in units of reward."""
        return with_value_unit(self.params, self.return_scale.unit)

    def evaluating(self, network: Network) -> Evaluate:
        """Returns the network as a function of observations, with values in units of reward."""
        unit = self.return_scale.unit

        def evaluate(observation: Parts) -> tuple[Array, Array]:
            logits, value = network(self.params, observation)
            return logits, value * unit

        return evaluate

    def with_scale(self, scale: ReturnScale) -> Learner:
        """Changes the return scale; the values in units of reward stay the same."""
        change = self.return_scale.unit / scale.unit
        params = {**self.params, **with_value_unit(self.params, change)}
        return self.replace(params=params, return_scale=scale)
