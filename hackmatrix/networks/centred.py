"""An MLP over the board as the player sees it: what is a step up is at the same place wherever the
player stands, so nothing has to be learned once for each place.
"""

from __future__ import annotations

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.networks import Spec, board
from hackmatrix.networks.dense import Dense
from hackmatrix.networks.torso import Parts, Shapes, Torso

Array = jax.Array


class Centred(Torso):
    """Every cell has `channels` numbers, from what is seen of it. The board is laid out around the
    player, with zeros beyond its edges, and read by `num_layers` dense layers of `hidden_dim`,
    together with the player's place and what is seen besides the board.
    """

    @classmethod
    def refuses(cls, spec: Spec, observation: Shapes) -> str | None:
        return board.refuses(observation)

    @nn.compact
    def __call__(self, parts: Parts) -> Array:
        spec = self.spec
        embed = Dense(spec.channels, 1, spec.compute_dtype, name="embed")
        cells = nn.relu(embed(parts["cells"]))
        around = _around(cells, *board.player_place(parts))
        place = board.player_plane(parts)
        seen: list[Array] = [_flat(around), _flat(place), board.numbers(parts)]
        for number in range(spec.num_layers):
            name = f"Dense_{number}"
            layer = Dense(spec.hidden_dim, math.sqrt(2), spec.compute_dtype, name=name)
            seen = [nn.relu(layer(*seen))]
        return seen[0]


def _around(cells: Array, row: Array, column: Array) -> Array:
    """[..., 2 rows - 1, 2 columns - 1, channels]: the cells by where they lie from the player. By
    products of matrices, and not by a gather, whose gradient is a scatter.
    """
    rows, columns = cells.shape[-3:-1]
    up, right = _at_distance(row, rows), _at_distance(column, columns)
    return jnp.einsum(
        "...ir,...jc,...rcf->...ijf", up.astype(cells.dtype), right.astype(cells.dtype), cells
    )


def _at_distance(player: Array, size: int) -> Array:
    """bool[..., 2 size - 1, size]: which of `size` places lies at each distance from the player's,
    from 1 - size on.
    """
    distances = np.arange(1 - size, size)[:, None]
    return player[..., None, None] + distances == np.arange(size)


def _flat(grid: Array) -> Array:
    return grid.reshape(*grid.shape[:-3], -1)
