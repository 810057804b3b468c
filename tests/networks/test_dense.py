"""A dense layer of an input in parts, and what follows it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.networks.dense import Dense, relu

Array = jax.Array


def test_a_layer_of_parts_and_its_gradients_are_those_of_the_parts_side_by_side() -> None:
    layer = Dense(width=5, scale=1)
    parts = [jax.random.normal(jax.random.key(size), (7, size)) for size in (11, 3, 4)]
    params = layer.init(jax.random.key(0), *parts)

    def outputs(params: Any, *parts: Array) -> Array:
        row: Any = layer.apply(params, *parts)
        return jnp.square(row).sum()

    def both(*parts: Array) -> tuple[Any, tuple[Array, ...]]:
        of_params, *of_parts = jax.grad(outputs, argnums=range(1 + len(parts)))(params, *parts)
        return of_params, tuple(of_parts)

    of_params, of_parts = both(*parts)
    of_layer, (of_row,) = both(jnp.concatenate(parts, axis=-1))
    whole = of_params, jnp.concatenate(of_parts, axis=-1)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4),
        whole,
        (of_layer, of_row),
    )


def test_a_layer_of_parts_has_derivatives_in_a_direction_too() -> None:
    layer = Dense(width=5, scale=1)
    parts = jnp.ones((7, 3)), jnp.ones((7, 2))
    params = layer.init(jax.random.key(0), *parts)
    _, tangent = jax.jvp(lambda part: layer.apply(params, part, parts[1]), parts[:1], parts[:1])
    expected = layer.apply(params, parts[0], jnp.zeros((7, 2)))
    np.testing.assert_allclose(tangent, jnp.asarray(expected), rtol=1e-6)


def test_what_is_cut_off_at_0_is_what_jax_cuts_off_and_so_is_its_gradient() -> None:
    numbers = jnp.array([-jnp.inf, -2.0, -0.0, 0.0, 1e-30, 3.0, jnp.inf, jnp.nan])
    gradient = jnp.arange(1.0, 9.0)
    np.testing.assert_array_equal(
        *(jax.jvp(each, [numbers], [gradient])[1] for each in (relu, jax.nn.relu))
    )
    for dtype in jnp.float32, jnp.bfloat16:
        (result, back), (expected, theirs) = (
            jax.vjp(function, numbers.astype(dtype)) for function in (relu, jax.nn.relu)
        )
        pairs = (result, expected), (back(gradient.astype(dtype)), theirs(gradient.astype(dtype)))
        for ours, wanted in pairs:
            np.testing.assert_array_equal(
                *(jnp.float32(jnp.asarray(each)) for each in (ours, wanted))
            )
