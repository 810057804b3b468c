"""A dense layer whose input is in parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.networks.dense import Dense

Array = jax.Array


def test_the_gradients_of_a_layer_of_parts_equal_those_of_the_concatenated_parts() -> None:
    layer = Dense(width=5, scale=1)
    parts = [jax.random.normal(jax.random.key(size), (7, size)) for size in (11, 3, 4)]
    params = layer.init(jax.random.key(0), *parts)

    def outputs(params: Any, *parts: Array) -> Array:
        row: Any = layer.apply(params, *parts)
        return jnp.square(row).sum()

    def gradients(*parts: Array) -> tuple[Any, tuple[Array, ...]]:
        of_params, *of_parts = jax.grad(outputs, argnums=range(1 + len(parts)))(params, *parts)
        return of_params, tuple(of_parts)

    of_params, of_parts = gradients(*parts)
    expected_of_params, (expected_of_row,) = gradients(jnp.concatenate(parts, axis=-1))
    found = of_params, jnp.concatenate(of_parts, axis=-1)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4),
        found,
        (expected_of_params, expected_of_row),
    )


def test_a_layer_of_parts_can_be_differentiated_in_forward_mode() -> None:
    layer = Dense(width=5, scale=1)
    parts = jnp.ones((7, 3)), jnp.ones((7, 2))
    params = layer.init(jax.random.key(0), *parts)
    _, tangent = jax.jvp(lambda part: layer.apply(params, part, parts[1]), parts[:1], parts[:1])
    expected = layer.apply(params, parts[0], jnp.zeros((7, 2)))
    np.testing.assert_allclose(tangent, jnp.asarray(expected), rtol=1e-6)


def test_only_a_layer_of_several_parts_has_a_barrier_on_its_gradient() -> None:
    layer = Dense(width=5, scale=1)

    def text(*parts: Array) -> str:
        params = layer.init(jax.random.key(0), *parts)
        gradient = jax.grad(lambda params: jnp.asarray(layer.apply(params, *parts)).sum())
        return jax.jit(gradient).lower(params).as_text()

    parts = jnp.ones((7, 3)), jnp.ones((7, 2)), jnp.ones((7, 4))
    assert text(*parts).count("optimization_barrier") == 1
    assert "optimization_barrier" not in text(parts[0])
