"""Dense layers."""

from __future__ import annotations

import itertools

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array


class Dense(nn.Module):
    """A dense layer of an input in parts: each is multiplied by its own rows of the weights.

    Equal to the layer of the parts put side by side, without putting them there. A part with fewer
    cells than the others, such as one vector for a whole grid, is broadcast to them.
    """

    width: int
    scale: float
    compute_dtype: str = "float32"
    precision: jax.lax.Precision | None = None

    @nn.compact
    def __call__(self, *parts: Array) -> Array:
        """[..., width] of parts [..., N], in the compute dtype."""
        ends = itertools.accumulate(part.shape[-1] for part in parts)
        *cuts, inputs = ends
        shape = inputs, self.width
        kernel = self.param("kernel", nn.initializers.orthogonal(self.scale), shape)
        bias = self.param("bias", nn.initializers.zeros, (self.width,))
        dtype = jnp.dtype(self.compute_dtype)
        rows = jnp.split(kernel.astype(dtype), cuts)
        products = [
            jnp.matmul(part.astype(dtype), its, precision=self.precision)
            for part, its in zip(parts, rows, strict=True)
        ]
        return sum(products[1:], products[0]) + bias.astype(dtype)
