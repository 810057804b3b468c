"""A network from outside the package: one dense layer over all parts of an observation."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from hackmatrix.networks.torso import Parts, Torso


class Toy(Torso):
    in_numpy = "toy_network_in_numpy:toy"
    steepness: float = 1.0

    @nn.compact
    def __call__(self, parts: Parts) -> jax.Array:
        rows = [
            part.reshape(*part.shape[: part.ndim - len(self.observation[name])], -1)
            for name, part in parts.items()
        ]
        inputs = jnp.concatenate(rows, axis=-1)
        return jnp.tanh(self.steepness * nn.Dense(self.spec.hidden_dim, name="layer")(inputs))
