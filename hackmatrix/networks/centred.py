"""An MLP over the board as the player sees it: what is a step up is at the same place wherever the
player stands, so nothing has to be learned once for each place.
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
        # Apart from what makes them, which a GPU would do once more for each place and each use.
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
    """[..., 2 rows - 1, 2 columns - 1, channels]: the cells by where they lie from the player, with
    zeros beyond the board.
    """
    rows, columns = cells.shape[-3:-1]
    beyond = (rows - 1, rows - 1), (columns - 1, columns - 1), (0, 0)
    wider = jnp.pad(cells, ((0, 0),) * (cells.ndim - 3) + beyond)
    return _window(wider, row, column, (2 * rows - 1, 2 * columns - 1))


def _there(cells: Array, row: Array, column: Array) -> tuple[Array, tuple[Array, Array]]:
    return around(cells, row, column), (row, column)


def _back(place: tuple[Array, Array], gradient: Array) -> tuple[Array, None, None]:
    """Cells that lie side by side have gradients that do. By itself JAX would add up each one."""
    row, column = place
    rows, columns = ((size + 1) // 2 for size in gradient.shape[-3:-1])
    return _window(gradient, rows - 1 - row, columns - 1 - column, (rows, columns)), None, None


around.defvjp(_there, _back)


def _window(grid: Array, row: Array, column: Array, size: tuple[int, int]) -> Array:
    """[..., *size, channels]: of each grid what lies from its row and column on."""

    def one(grid: Array, row: Array, column: Array) -> Array:
        first = (row, column, jnp.zeros_like(row))
        return jax.lax.dynamic_slice(grid, first, (*size, grid.shape[-1]))

    return jnp.vectorize(one, signature="(r,c,f),(),()->(i,j,f)")(grid, row, column)


def _flat(grid: Array) -> Array:
    return grid.reshape(*grid.shape[:-3], -1)
