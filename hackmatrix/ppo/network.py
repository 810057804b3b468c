"""The network: what to do, and what it is worth."""

from __future__ import annotations

import math
from typing import Any, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array
Params = Any
# Near 0 the first policy is uniform over the valid actions.
_ACTOR_SCALE = 0.01


class ActorCritic(nn.Module):
    """Layers shared by the actor and the critic, then a head for each.

    Parameters, logits and value are float32; `compute_dtype` is that of the products.
    """

    num_actions: int
    hidden_dim: int
    num_layers: int
    compute_dtype: str = "float32"

    @nn.compact
    def __call__(self, observation: Array) -> tuple[Array, Array]:
        """Logits f32[..., A] and value f32[...] of observations f32[..., N]."""
        hidden = observation
        for _ in range(self.num_layers):
            hidden = nn.relu(self._dense(self.hidden_dim, math.sqrt(2))(hidden))
        logits = self._dense(self.num_actions, _ACTOR_SCALE, "actor")(hidden)
        value = self._dense(1, 1, "critic")(hidden)
        return logits.astype(jnp.float32), value[..., 0].astype(jnp.float32)

    def _dense(self, width: int, scale: float, name: str | None = None) -> nn.Dense:
        return nn.Dense(
            width,
            dtype=jnp.dtype(self.compute_dtype),
            kernel_init=nn.initializers.orthogonal(scale),
            name=name,
        )


def outputs(network: ActorCritic, params: Params, observation: Array) -> tuple[Array, Array]:
    """The network's logits and value with these parameters."""
    return cast(tuple[Array, Array], network.apply(params, observation))
