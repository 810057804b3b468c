"""Gradients over all devices."""

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
    """The gradient of a loss, the mean over this mesh axis, for parameters that all devices share;
    and what the loss tells besides, of this device alone.
    """
    # Without pcast autodiff would sum over the axis by itself, and the mean of sums is N times the
    # gradient.
    own = jax.lax.pcast(params, axis, to="varying")
    gradient, aux = jax.grad(loss, has_aux=True)(own)
    return jax.lax.pmean(gradient, axis), aux


def mean_gradient_of_microbatches(
    loss: Callable[[Params, jax.Array], tuple[jax.Array, Any]],
    params: Params,
    microbatches: jax.Array,
    axis: str,
) -> tuple[Params, Any]:
    """The same of the mean of a loss over microbatches [microbatches, ...], one after the other;
    what the loss tells is the mean over them, too.
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
