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
    """`num_layers` dense layers of width `hidden_dim`, with ReLU."""

    @nn.compact
    def __call__(self, parts: Parts) -> Array:
        rows, axes = self._rows(parts)
        for number in range(self.spec.num_layers):
            layer = Dense(
                self.spec.hidden_dim,
                math.sqrt(2),
                self.spec.compute_dtype,
                axes=axes,
                name=f"Dense_{number}",
            )
            rows, axes = [nn.relu(layer(*rows))], (1,)
        return rows[0]

    def _rows(self, parts: Parts) -> tuple[list[Array], tuple[int, ...]]:
        """Returns the inputs of the first layer, and how many trailing axes of each it contracts.
        Consecutive vectors and scalars are concatenated. A grid is large, so it is not copied but
        passed as cells [..., C, N].
        """
        shapes = self.observation
        seen = {name: part if shapes[name] else part[..., None] for name, part in parts.items()}
        rows, axes = [], []
        for dimensions, names in itertools.groupby(seen, lambda name: len(shapes[name]) or 1):
            group = [seen[name] for name in names]
            if dimensions == 1:
                group = [jnp.concatenate(group, axis=-1)]
            else:
                group = [jax.lax.collapse(part, -dimensions, -1) for part in group]
            rows += group
            axes += [min(dimensions, 2)] * len(group)
        return rows, tuple(axes)
