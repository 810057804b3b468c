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
        row, column = board.player_place(parts)
        around = _around(_around(cells, row, -3), column, -2)
        place = board.player_plane(parts)
        rows: list[Array] = [_flat(around), _flat(place), board.numbers(parts)]
        for number in range(spec.num_layers):
            name = f"Dense_{number}"
            layer = Dense(spec.hidden_dim, math.sqrt(2), spec.compute_dtype, name=name)
            rows = [nn.relu(layer(*rows))]
        return rows[0]


def _around(cells: Array, player: Array, axis: int) -> Array:
    """The cells along an axis of N places by their distance from the player's: 2 N - 1 of them."""
    size = cells.shape[axis]
    distances = np.arange(1 - size, size)
    which = player[..., None, None] + distances[:, None] == np.arange(size)
    equation = {-3: "...ir,...rcf->...icf", -2: "...jc,...icf->...ijf"}[axis]
    return jnp.einsum(equation, which.astype(cells.dtype), cells)


def _flat(grid: Array) -> Array:
    return grid.reshape(*grid.shape[:-3], -1)
