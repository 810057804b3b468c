"""The network: what to do, and what it is worth."""

from __future__ import annotations

import itertools
import math
from typing import Any, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array
Params = Any
# Near 0 the first policy is uniform over the valid actions.
_ACTOR_SCALE = 0.01


class Dense(nn.Module):
    """A dense layer of an input in parts: each is multiplied by its own rows of the weights.

    Equal to the layer of the parts put side by side, without putting them there.
    """

    width: int
    scale: float
    compute_dtype: str

    @nn.compact
    def __call__(self, *parts: Array) -> Array:
        """[..., width] of parts [..., N]."""
        ends = itertools.accumulate(part.shape[-1] for part in parts)
        *cuts, inputs = ends
        shape = inputs, self.width
        kernel = self.param("kernel", nn.initializers.orthogonal(self.scale), shape)
        bias = self.param("bias", nn.initializers.zeros, (self.width,))
        dtype = jnp.dtype(self.compute_dtype)
        rows = jnp.split(kernel.astype(dtype), cuts)
        products = [part.astype(dtype) @ its for part, its in zip(parts, rows, strict=True)]
        return sum(products[1:], products[0]) + bias.astype(dtype)


class ActorCritic(nn.Module):
    """Layers shared by the actor and the critic, then a head for each.

    Parameters, logits and value are float32; `compute_dtype` is that of the products.
    """

    num_actions: int
    hidden_dim: int
    num_layers: int
    compute_dtype: str = "float32"

    @nn.compact
    def __call__(self, observation: Array | tuple[Array, ...]) -> tuple[Array, Array]:
        """Logits f32[..., A] and value f32[...] of observations f32[..., N], whole or in parts."""
        inputs = observation if isinstance(observation, tuple) else (observation,)
        for number in range(self.num_layers):
            layer = self._dense(self.hidden_dim, math.sqrt(2), f"Dense_{number}")
            inputs = (nn.relu(layer(*inputs)),)
        logits = self._dense(self.num_actions, _ACTOR_SCALE, "actor")(*inputs)
        value = self._dense(1, 1, "critic")(*inputs)
        return logits.astype(jnp.float32), value[..., 0].astype(jnp.float32)

    def _dense(self, width: int, scale: float, name: str) -> Dense:
        return Dense(width, scale, self.compute_dtype, name=name)


def outputs(
    network: ActorCritic, params: Params, observation: Array | tuple[Array, ...]
) -> tuple[Array, Array]:
    """The network's logits and value with these parameters."""
    return cast(tuple[Array, Array], network.apply(params, observation))
