"""An MLP over the board centred on the player: the cell above the player is always the same input,
so nothing has to be learned separately for each of the player's places.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata

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
    return jax.lax.platform_dependent(
        cells,
        row,
        column,
        cpu=_on_its_own(_around_by_slices),
        tpu=_around_by_selects,
        default=_around_by_slices,
    )


def _around_forward(cells: Array, row: Array, column: Array) -> tuple[Array, tuple[Array, Array]]:
    return around(cells, row, column), (row, column)


def _around_backward(place: tuple[Array, Array], gradient: Array) -> tuple[Array, None, None]:
    """The gradient of the cells is a window of the given one. JAX's own would be a scatter-add."""
    of_cells = jax.lax.platform_dependent(
        gradient,
        *place,
        cpu=_on_its_own(_within_by_slices),
        tpu=_within_by_selects,
        default=_within_by_slices,
    )
    return of_cells, None, None


around.defvjp(_around_forward, _around_backward)


def _on_its_own(function: Callable[..., Array]) -> Callable[..., Array]:
    """Makes a function a call that XLA does not inline. On a CPU it would otherwise compute the
    place of the player once more for each number that it slices.
    """
    compiled = jax.jit(function)
    return lambda *given: set_xla_metadata(compiled(*given), inlineable="false")


def _around_by_slices(cells: Array, row: Array, column: Array) -> Array:
    rows, columns = cells.shape[-3:-1]
    padding = (rows - 1, rows - 1), (columns - 1, columns - 1), (0, 0)
    padded = jnp.pad(cells, ((0, 0),) * (cells.ndim - 3) + padding)
    return _window(padded, row, column, (2 * rows - 1, 2 * columns - 1))


def _within_by_slices(wide: Array, row: Array, column: Array) -> Array:
    """Returns the board's part of a grid around the player: [..., rows, columns, channels]."""
    rows, columns = ((size + 1) // 2 for size in wide.shape[-3:-1])
    return _window(wide, rows - 1 - row, columns - 1 - column, (rows, columns))


def _window(grid: Array, row: Array, column: Array, size: tuple[int, int]) -> Array:
    """Slices each grid from its own row and column on: [..., *size, channels]."""
    *boards, rows, columns, channels = range(grid.ndim)
    dimensions = jax.lax.GatherDimensionNumbers(
        offset_dims=(rows, columns, channels),
        collapsed_slice_dims=(),
        start_index_map=(rows, columns),
        operand_batching_dims=tuple(boards),
        start_indices_batching_dims=tuple(boards),
    )
    sizes = (*[1] * len(boards), *size, grid.shape[channels])
    first = jnp.stack([row, column], axis=-1)
    return jax.lax.gather(grid, first, dimensions, sizes, mode="promise_in_bounds")


# A TPU moves all boards by one offset fast, but each by its own slowly: with few channels it uses a
# fraction of its lanes. So all boards are moved by each offset, and the right one is chosen.
def _around_by_selects(cells: Array, row: Array, column: Array) -> Array:
    columns, rows = cells.shape[-2], cells.shape[-3]
    wide = _selected(column, [_padded(cells, -2, columns - 1 - at, at) for at in range(columns)])
    return _selected(row, [_padded(wide, -3, rows - 1 - at, at) for at in range(rows)])


def _within_by_selects(wide: Array, row: Array, column: Array) -> Array:
    rows, columns = ((size + 1) // 2 for size in wide.shape[-3:-1])
    flat = _selected(row, [_padded(wide, -3, at + 1 - rows, -at) for at in range(rows)])
    return _selected(column, [_padded(flat, -2, at + 1 - columns, -at) for at in range(columns)])


def _padded(grid: Array, axis: int, before: int, after: int) -> Array:
    """Adds zeros before and after an axis, or takes away where negative."""
    edges = [(0, 0, 0)] * grid.ndim
    edges[axis] = before, after, 0
    return jax.lax.pad(grid, jnp.zeros((), grid.dtype), edges)


def _selected(number: Array, grids: list[Array]) -> Array:
    """Returns the grid of this number for each board; `number` is [...]."""
    chosen = grids[0]
    for each, grid in enumerate(grids):
        chosen = jnp.where((number == each)[..., None, None, None], grid, chosen)
    return chosen


def _flat(grid: Array) -> Array:
    *boards, rows, columns, features = grid.shape
    return grid.reshape(*boards, rows * columns * features)
