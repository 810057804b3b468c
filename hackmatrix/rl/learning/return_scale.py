"""The scale of the returns, and how much of them the values explain.

Rewards run from -10 to over 500. The critic learns returns in units of their root mean square over
the recent past, so that its loss stays of the order of the others.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

Array = jax.Array
_DECAY = 0.99  # of what it was, at each update
_LEAST = 1e-4


class ReturnScale(struct.PyTreeNode):
    mean_square: Array  # f32: a decaying sum of the updates' mean squares
    weight: Array  # f32: the sum of their weights

    @property
    def unit(self) -> Array:
        """What a value of 1 stands for; 1 as long as nothing is known."""
        known = self.mean_square / jnp.maximum(self.weight, 1 - _DECAY)
        return jnp.where(self.weight > 0, jnp.sqrt(jnp.maximum(known, _LEAST)), 1)


def initial_scale() -> ReturnScale:
    return ReturnScale(jnp.float32(0), jnp.float32(0))


def update(scale: ReturnScale, returns: Array, axis: str) -> ReturnScale:
    """The scale after the returns of one more update, over all devices."""
    mean_square = jax.lax.pmean(jnp.square(returns).mean(), axis)
    return ReturnScale(
        _DECAY * scale.mean_square + (1 - _DECAY) * mean_square,
        _DECAY * scale.weight + (1 - _DECAY),
    )


def explained_variance(returns: Array, values: Array, axis: str) -> Array:
    """1 when the values tell the returns, 0 when a constant would do as well."""
    rest = returns - values
    means = jax.lax.pmean((returns.mean(), rest.mean()), axis)
    of_returns, of_rest = jax.lax.pmean(
        (jnp.square(returns - means[0]).mean(), jnp.square(rest - means[1]).mean()), axis
    )
    # Of returns that are all but the same the values may tell anything.
    least = jnp.maximum(1e-12 * of_rest, 1e-30)
    return jnp.where(of_returns > 0, 1 - of_rest / jnp.maximum(of_returns, least), 0)
