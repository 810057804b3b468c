"""Dense layers."""

from __future__ import annotations

import itertools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array


class Dense(nn.Module):
    """A dense layer of an input in parts: each is multiplied by its own rows of the weights.

    Equal to the layer of the parts put side by side, without putting them there. A part with fewer
    cells than the others, such as one vector for a whole grid, is broadcast to them. The last axis
    of a part has its numbers, or as many of the last ones as `axes` says for each part: a grid that
    is multiplied as it is need not be laid out anew, which on a TPU takes longer than the product.
    """

    width: int
    scale: float
    compute_dtype: str = "float32"
    precision: jax.lax.Precision | None = None
    axes: tuple[int, ...] = ()

    @nn.compact
    def __call__(self, *parts: Array) -> Array:
        """[..., width] of parts [..., N], in the compute dtype."""
        axes = self.axes or (1,) * len(parts)
        shapes = [part.shape[-number:] for part, number in zip(parts, axes, strict=True)]
        *cuts, inputs = itertools.accumulate(map(math.prod, shapes))
        shape = inputs, self.width
        kernel = self.param("kernel", nn.initializers.orthogonal(self.scale), shape)
        bias = self.param("bias", nn.initializers.zeros, (self.width,))
        dtype = jnp.dtype(self.compute_dtype)
        rows = jnp.split(kernel.astype(dtype), cuts)
        products = [
            jnp.tensordot(
                part.astype(dtype),
                its.reshape(*numbers, self.width),
                len(numbers),
                precision=self.precision,
            )
            for part, its, numbers in zip(parts, rows, shapes, strict=True)
        ]
        if len(products) > 1:
            products[0] = _by_itself(products[0])
        product = sum(products[1:], products[0])
        # Broadcast first, so that its gradient is summed in float32: the sum of thousands of
        # bfloat16 numbers would swallow the small ones.
        return product + jnp.broadcast_to(bias, product.shape).astype(dtype)


@jax.custom_jvp
def _by_itself(product: Array) -> Array:
    """The product, whose gradient is a value of its own: parts that are multiplied by one and the
    same gradient XLA for GPUs would first put side by side.
    """
    return product


@_by_itself.defjvp
def _by_itself_jvp(products: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return _by_itself(*products), jax.lax.optimization_barrier(*tangents)
