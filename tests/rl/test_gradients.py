"""Gradients over all devices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from hackmatrix.rl.gradients import mean_gradient, mean_gradient_of_microbatches

AXIS = "envs"


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_the_gradient_of_a_mean_is_the_same_on_any_number_of_devices(devices: int) -> None:
    """By itself, JAX would sum the gradients of all devices."""
    numbers, params = jnp.arange(8.0), {"slope": jnp.float32(3)}

    def on_each(params: dict[str, jax.Array], own: jax.Array) -> tuple[jax.Array, jax.Array]:
        def loss(params: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
            return (params["slope"] * own).mean(), own.max()

        gradient, greatest = mean_gradient(loss, params, AXIS)
        return gradient["slope"], jax.lax.pmax(greatest, AXIS)

    split = PartitionSpec(AXIS)
    mesh = Mesh(jax.devices()[:devices], (AXIS,))
    run = jax.shard_map(
        on_each, mesh=mesh, in_specs=(PartitionSpec(), split), out_specs=PartitionSpec()
    )
    np.testing.assert_allclose(jax.jit(run)(params, numbers), [3.5, 7.0])


@pytest.mark.parametrize("microbatches", [1, 4])
def test_the_gradient_of_microbatches_is_that_of_the_whole_minibatch(microbatches: int) -> None:
    numbers, params = jnp.arange(8.0).reshape(microbatches, -1), jnp.float32(3)

    def on_each(params: jax.Array, own: jax.Array) -> tuple[jax.Array, jax.Array]:
        def loss(params: jax.Array, part: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jnp.square(params * part).mean(), part.mean()

        gradient, mean = mean_gradient_of_microbatches(loss, params, own, AXIS)
        return gradient, jax.lax.pmean(mean, AXIS)

    run = jax.shard_map(
        on_each,
        mesh=Mesh(jax.devices()[:2], (AXIS,)),
        in_specs=(PartitionSpec(), PartitionSpec(None, AXIS)),
        out_specs=PartitionSpec(),
    )
    squares = np.square(np.arange(8)).mean()
    np.testing.assert_allclose(jax.jit(run)(params, numbers), [2 * 3 * squares, 3.5])
