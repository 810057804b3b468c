"""Gradients over all devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from hackmatrix.networks.actor_critic import Params


def mean_gradient(
    loss: Callable[[Params], tuple[jax.Array, Any]], params: Params, axis: str
) -> tuple[Params, Any]:
    """The gradient of a loss, the mean over this mesh axis, for parameters that all devices share;
    and what the loss tells besides, of this device alone.
    """
    # Without pcast autodiff would sum over the axis by itself, and the mean of sums is N times the
    # gradient.
    own = jax.lax.pcast(params, axis, to="varying")
    gradient, told = jax.grad(loss, has_aux=True)(own)
    return jax.lax.pmean(gradient, axis), told
