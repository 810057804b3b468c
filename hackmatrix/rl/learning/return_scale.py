"""The scale of the returns, and how much of their variance the values explain.

Rewards range from -10 to over 500. The critic learns returns in units of their root mean square
over recent updates, so that its loss has the same order of magnitude as the other terms.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

Array = jax.Array
_DECAY = 0.99  # per update
_LEAST = 1e-4  # mean square


class ReturnScale(struct.PyTreeNode):
    mean_square: Array  # f32: a decaying sum of the updates' mean squares
    weight: Array  # f32: the sum of their weights

    @property
    def unit(self) -> Array:
        """The root mean square of recent returns, for which a value of 1 stands; at first 1."""
        mean_square = self.mean_square / jnp.maximum(self.weight, 1 - _DECAY)
        return jnp.where(self.weight > 0, jnp.sqrt(jnp.maximum(mean_square, _LEAST)), 1)


def initial_scale() -> ReturnScale:
    return ReturnScale(jnp.float32(0), jnp.float32(0))


def update(scale: ReturnScale, returns: Array, axis: str) -> ReturnScale:
    """Returns the scale after one more update, with its returns on all devices."""
    mean_square = jax.lax.pmean(jnp.square(returns).mean(), axis)
    return ReturnScale(
        _DECAY * scale.mean_square + (1 - _DECAY) * mean_square,
        _DECAY * scale.weight + (1 - _DECAY),
    )


def explained_variance(returns: Array, values: Array, axis: str) -> Array:
    """Returns 1 if the values predict the returns exactly, 0 if no better than a constant."""
    residual = returns - values
    means = jax.lax.pmean((returns.mean(), residual.mean()), axis)
    variance, residual_variance = jax.lax.pmean(
        (jnp.square(returns - means[0]).mean(), jnp.square(residual - means[1]).mean()), axis
    )
    # Bounds the result where the returns are almost constant.
    least = jnp.maximum(1e-12 * residual_variance, 1e-30)
    return jnp.where(variance > 0, 1 - residual_variance / jnp.maximum(variance, least), 0)
