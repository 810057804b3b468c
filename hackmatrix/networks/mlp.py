"""A multilayer perceptron over all numbers of the observation."""

from __future__ import annotations

import itertools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from hackmatrix.networks.dense import Dense
from hackmatrix.networks.torso import Parts, Torso

Array = jax.Array


class Mlp(Torso):
    """`num_layers` dense layers of `hidden_dim`."""

    @nn.compact
    def __call__(self, parts: Parts) -> Array:
        rows = self._rows(parts)
        for number in range(self.spec.num_layers):
            layer = Dense(
                self.spec.hidden_dim, math.sqrt(2), self.spec.compute_dtype, name=f"Dense_{number}"
            )
            rows = [nn.relu(layer(*rows))]
        return rows[0]

    def _rows(self, parts: Parts) -> list[Array]:
        """The parts as rows [..., N] in their order. Vectors that follow one another are put side
        by side; a grid, which is large, is not copied.
        """
        rows = []
        for dimensions, names in itertools.groupby(parts, lambda name: len(self.observation[name])):
            group = [parts[name] for name in names]
            if dimensions == 1:
                rows.append(jnp.concatenate(group, axis=-1))
            else:
                rows += [part.reshape(*part.shape[: part.ndim - dimensions], -1) for part in group]
        return rows
