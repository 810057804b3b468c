"""An MLP over the board centred on the player: the cell above the player is always the same input,
so nothing has to be learned separately for each of the player's places.
"""

from __future__ import annotations

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from hackmatrix.networks import Spec, board
from hackmatrix.networks.dense import Dense
from hackmatrix.networks.torso import Parts, Shapes, Torso

Array = jax.Array


class Centred(Torso):
    """Embeds each cell in `channels` numbers, lays the board out around the player with zeros
    beyond its edges, and reads it with `num_layers` dense layers of width `hidden_dim`, together
    with the player's place and the rest of the observation.
    """

    @classmethod
    def refuses(cls, spec: Spec, observation: Shapes) -> str | None:
        return board.refuses(observation)

    @nn.compact
    def __call__(self, parts: Parts) -> Array:
        spec = self.spec
        embed = Dense(spec.channels, 1, spec.compute_dtype, name="embed")
        cells = nn.relu(embed(parts["cells"]))
        # The barriers keep XLA for GPUs from fusing the embedding and the layout into their
        # consumers, which would compute them again for each cell of the window and each use.
        cells, *place_of_player = jax.lax.optimization_barrier((cells, *board.player_place(parts)))
        laid_out = jax.lax.optimization_barrier(around(cells, *place_of_player))
        place = board.player_plane(parts)
        seen: list[Array] = [_flat(laid_out), _flat(place), board.numbers(parts)]
        for number in range(spec.num_layers):
            name = f"Dense_{number}"
            layer = Dense(spec.hidden_dim, math.sqrt(2), spec.compute_dtype, name=name)
            seen = [nn.relu(layer(*seen))]
        return seen[0]


@jax.custom_vjp
def around(cells: Array, row: Array, column: Array) -> Array:
    """Returns the cells by their offset from the player, with zeros beyond the board:
    [..., 2 rows - 1, 2 columns - 1, channels].
    """
    rows, columns = cells.shape[-3:-1]
    padding = (rows - 1, rows - 1), (columns - 1, columns - 1), (0, 0)
    padded = jnp.pad(cells, ((0, 0),) * (cells.ndim - 3) + padding)
    return _window(padded, row, column, (2 * rows - 1, 2 * columns - 1))


def _around_forward(cells: Array, row: Array, column: Array) -> tuple[Array, tuple[Array, Array]]:
    return around(cells, row, column), (row, column)


def _around_backward(place: tuple[Array, Array], gradient: Array) -> tuple[Array, None, None]:
    """The gradient of the cells is a window of the given one. JAX's own would be a scatter-add."""
    row, column = place
    rows, columns = ((size + 1) // 2 for size in gradient.shape[-3:-1])
    return _window(gradient, rows - 1 - row, columns - 1 - column, (rows, columns)), None, None


around.defvjp(_around_forward, _around_backward)


def _window(grid: Array, row: Array, column: Array, size: tuple[int, int]) -> Array:
    """Slices each grid from its own row and column on: [..., *size, channels]."""

    def one(grid: Array, row: Array, column: Array) -> Array:
        first = (row, column, jnp.zeros_like(row))
        return jax.lax.dynamic_slice(grid, first, (*size, grid.shape[-1]))

    return jnp.vectorize(one, signature="(r,c,f),(),()->(i,j,f)")(grid, row, column)


def _flat(grid: Array) -> Array:
    return grid.reshape(*grid.shape[:-3], -1)
