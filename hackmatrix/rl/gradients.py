"""Gradients averaged over all devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix.networks.actor_critic import Params
from hackmatrix.parallel import varying


def mean_gradient(
    loss: Callable[[Params], tuple[jax.Array, Any]], params: Params, axis: str
) -> tuple[Params, Any]:
    """Returns the gradient of a loss, averaged over the mesh axis, for replicated parameters; and
    the auxiliary output of the loss, of this device alone.
    """
    # Without pcast, autodiff would already sum the gradient over the axis, and pmean would return
    # N times the mean.
    own = jax.lax.pcast(params, axis, to="varying")
    gradient, aux = jax.grad(loss, has_aux=True)(own)
    return jax.lax.pmean(gradient, axis), aux


def mean_gradient_of_microbatches(
    loss: Callable[[Params, jax.Array], tuple[jax.Array, Any]],
    params: Params,
    microbatches: jax.Array,
    axis: str,
) -> tuple[Params, Any]:
    """Like `mean_gradient`, for the mean of a loss over microbatches [microbatches, ...], which are
    processed one after the other. The auxiliary output is averaged over them, too.
    """
    number = len(microbatches)
    if number == 1:
        return mean_gradient(lambda own: loss(own, microbatches[0]), params, axis)
    gradient_of = jax.grad(loss, has_aux=True)
    own = jax.lax.pcast(params, axis, to="varying")
    sums = jax.eval_shape(gradient_of, own, microbatches[0])
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), sums)

    def add(sums: Any, microbatch: jax.Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, sums, gradient_of(own, microbatch)), None

    sums, _ = jax.lax.scan(add, varying.like(microbatches, nothing), microbatches)
    gradient, aux = jax.tree.map(lambda leaf: leaf / number, sums)
    return jax.lax.pmean(gradient, axis), aux
