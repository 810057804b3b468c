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
    """Embeds each cell in `channels` numbers, from its features, whether the player stands there,
    and the rest of the observation. `num_layers` residual convolutions follow. A dense layer of
    width `hidden_dim` reads the player's cell, the maximum and the mean over the board, and the
    rest of the observation.
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
        player_cell = (cells * plane.astype(cells.dtype)).sum((-3, -2))
        seen = jnp.concatenate([player_cell, cells.max((-3, -2)), cells.mean((-3, -2))], axis=-1)
        read = Dense(spec.hidden_dim, math.sqrt(2), spec.compute_dtype, name="read")
        return nn.relu(read(seen, numbers))


class Convolution(nn.Module):
    """A 3x3 convolution with zero padding, as one matrix product of nine shifted copies of the
    cells. On a CPU its gradient is several times as fast as that of XLA's convolution.
    """

    channels: int
    compute_dtype: str

    @nn.compact
    def __call__(self, cells: Array) -> Array:
        """Maps cells [..., rows, columns, channels] to the same shape."""
        product = Dense(self.channels, 1, self.compute_dtype, name="product")
        return product(jnp.concatenate(_shifted(cells), axis=-1))


def _shifted(cells: Array) -> list[Array]:
    """Returns nine copies of the cells, one shifted by each offset of the 3x3 kernel."""
    rows, columns = cells.shape[-3:-1]
    around = [(0, 0)] * (cells.ndim - 3) + [(1, 1), (1, 1), (0, 0)]
    padded = jnp.pad(cells, around)
    return [
        padded[..., up : up + rows, right : right + columns, :]
        for up in range(_SIDE)
        for right in range(_SIDE)
    ]
