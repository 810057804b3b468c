"""Dense layers."""

from __future__ import annotations

import itertools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array


class Dense(nn.Module):
    """A dense layer of an input in several parts, each multiplied by its own rows of the kernel.

    Equal to a dense layer of the concatenated parts, without concatenating them. Leading axes are
    broadcast, such as those of one vector against a whole grid. `axes` is the number of trailing
    axes of each part that are contracted, by default 1. With more, a grid need not be reshaped
    first: on a TPU that takes longer than the product.
    """

    width: int
    scale: float
    compute_dtype: str = "float32"
    precision: jax.lax.Precision | None = None
    axes: tuple[int, ...] = ()

    @nn.compact
    def __call__(self, *parts: Array) -> Array:
        """Maps parts [..., N] to [..., width], in the compute dtype."""
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
                weights.reshape(*numbers, self.width),
                len(numbers),
                precision=self.precision,
            )
            for part, weights, numbers in zip(parts, rows, shapes, strict=True)
        ]
        if len(products) > 1:
            products[0] = _gradient_barrier(products[0])
        product = sum(products[1:], products[0])
        # Broadcast the bias before the cast, so that its gradient is summed in float32: a bfloat16
        # sum of thousands of numbers would lose the small ones.
        return product + jnp.broadcast_to(bias, product.shape).astype(dtype)


@jax.custom_jvp
def _gradient_barrier(product: Array) -> Array:
    """The identity, with an optimization barrier on its gradient. XLA for GPUs would otherwise
    concatenate the parts, to merge the products with the gradient that they share.
    """
    return product


@_gradient_barrier.defjvp
def _gradient_barrier_jvp(products: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return _gradient_barrier(*products), jax.lax.optimization_barrier(*tangents)
