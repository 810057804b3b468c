"""A residual network of 3x3 convolutions over the cells of the board."""

from __future__ import annotations

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from hackmatrix.networks import Spec, board
from hackmatrix.networks.dense import Dense
from hackmatrix.networks.torso import Parts, Shapes, Torso

Array = jax.Array
_SIDE = 3


class Conv(Torso):
    """Every cell has `channels` numbers: from what is seen of it, whether the player stands there,
    and what is seen besides the board. `num_layers` convolutions add to them. A dense layer of
    `hidden_dim` reads the player's cell, and the maximum and the mean over the board.
    """

    samples_at_once = 128

    @classmethod
    def refuses(cls, spec: Spec, observation: Shapes) -> str | None:
        return board.refuses(observation)

    @nn.compact
    def __call__(self, parts: Parts) -> Array:
        spec = self.spec
        plane, numbers = board.player_plane(parts), board.numbers(parts)
        embed = Dense(spec.channels, 1, spec.compute_dtype, name="embed")
        cells = embed(parts["cells"], plane, numbers[..., None, None, :])
        for number in range(spec.num_layers):
            cells = cells + Convolution(spec.channels, spec.compute_dtype, name=f"Conv_{number}")(
                nn.relu(cells)
            )
        cells = nn.relu(cells)
        here = (cells * plane.astype(cells.dtype)).sum((-3, -2))
        seen = jnp.concatenate([here, cells.max((-3, -2)), cells.mean((-3, -2))], axis=-1)
        read = Dense(spec.hidden_dim, math.sqrt(2), spec.compute_dtype, name="read")
        return nn.relu(read(seen, numbers))


class Convolution(nn.Module):
    """3x3, with zeros around the board, as one matrix product of nine shifted copies of the cells:
    on a CPU, several times as fast as XLA's convolution when it is differentiated.
    """

    channels: int
    compute_dtype: str

    @nn.compact
    def __call__(self, cells: Array) -> Array:
        """[..., rows, columns, channels] of the same."""
        product = Dense(self.channels, 1, self.compute_dtype, name="product")
        return product(jnp.concatenate(_shifted(cells), axis=-1))


def _shifted(cells: Array) -> list[Array]:
    """For each of the nine places around a cell, and in it, what is there."""
    rows, columns = cells.shape[-3:-1]
    around = [(0, 0)] * (cells.ndim - 3) + [(1, 1), (1, 1), (0, 0)]
    padded = jnp.pad(cells, around)
    return [
        padded[..., up : up + rows, right : right + columns, :]
        for up in range(_SIDE)
        for right in range(_SIDE)
    ]
