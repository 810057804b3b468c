"""The forward passes of the torsos in NumPy, for programs without JAX.

Each is a `NumpyTorso`: it maps the torso's parameters and the parts f32[B, *shape] of observations
to features f32[B, F]. It computes in float32, whatever the compute dtype was in training.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hackmatrix.errors import UserError
from hackmatrix.networks import board

Array = np.ndarray
Params = Mapping[str, Any]
Parts = Mapping[str, Array]
_HEAD_WIDTH = 16  # of attention, as in hackmatrix/networks/cells.py
_SLACK = 0.03  # the difference that `agree` allows, as a fraction of the largest output


def mlp(params: Params, parts: Parts) -> Array:
    return _dense_layers(params, [_flat(part) for part in parts.values()])


def centred(params: Params, parts: Parts) -> Array:
    _check_player(parts)
    cells = np.maximum(dense(params["embed"], parts["cells"]), 0)
    boards, rows, columns, channels = cells.shape
    around = np.zeros((boards, 2 * rows - 1, 2 * columns - 1, channels), np.float32)
    for number, row, column in zip(range(boards), *board.player_place(parts), strict=True):
        up, right = rows - 1 - row, columns - 1 - column
        around[number, up : up + rows, right : right + columns] = cells[number]
    seen = [_flat(around), _flat(board.player_plane(parts)), board.numbers(parts)]
    return _dense_layers(params, seen)


def conv(params: Params, parts: Parts) -> Array:
    _check_player(parts)
    plane, numbers = board.player_plane(parts), board.numbers(parts)
    grid = np.concatenate([parts["cells"], plane, _on_all_cells(numbers, plane)], axis=-1)
    cells = dense(params["embed"], grid)
    for layer in _numbered(params, "Conv"):
        cells = cells + dense(layer["product"], _shifted(np.maximum(cells, 0)))
    cells = np.maximum(cells, 0)
    player_cell = (cells * plane).sum((1, 2))
    seen = [player_cell, cells.max((1, 2)), cells.mean((1, 2)), numbers]
    return np.maximum(dense(params["read"], np.concatenate(seen, axis=-1)), 0)


def cells(params: Params, parts: Parts) -> Array:
    _check_player(parts)
    plane, numbers = board.player_plane(parts), board.numbers(parts)
    cell_tokens = dense(params["embed_cells"], np.concatenate([parts["cells"], plane], axis=-1))
    tokens = _flat_cells(cell_tokens) + params["places"]
    player_token = dense(params["embed_player"], numbers)
    tokens = np.concatenate([player_token[:, None], tokens], axis=1)
    for block in _numbered(params, "Block"):
        tokens = tokens + _attend(block, _layer_norm(block["norm_0"], tokens))
        wide = np.maximum(dense(block["wide"], _layer_norm(block["norm_1"], tokens)), 0)
        tokens = tokens + dense(block["narrow"], wide)
    tokens = _layer_norm(params["norm"], tokens)
    player_cell = (tokens[:, 1:] * _flat_cells(plane)).sum(1)
    seen = [tokens[:, 0], player_cell, tokens.mean(1)]
    return np.maximum(dense(params["read"], np.concatenate(seen, axis=-1)), 0)


def _dense_layers(params: Params, seen: list[Array]) -> Array:
    hidden = np.concatenate(seen, axis=-1)
    for layer in _numbered(params, "Dense"):
        hidden = np.maximum(dense(layer, hidden), 0)
    return hidden


def dense(layer: Params, inputs: Array) -> Array:
    """Maps [..., inputs] to [..., outputs]."""
    product: Array = inputs @ layer["kernel"] + layer["bias"]
    return product


def agree(given: Array, expected: Array) -> bool:
    """Returns whether the outputs of two forward passes are equal but for rounding."""
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    return np.allclose(given, expected, rtol=0, atol=_SLACK * largest, equal_nan=True)


def _flat(part: Array) -> Array:
    """Flattens a part to f32[B, N], also if B or N is 0."""
    return part.reshape(len(part), math.prod(part.shape[1:]))


def _flat_cells(cells: Array) -> Array:
    """Reshapes [B, rows, columns, N] to [B, rows x columns, N]."""
    boards, rows, columns, numbers = cells.shape
    return cells.reshape(boards, rows * columns, numbers)


def _numbered(params: Params, name: str) -> Iterator[Params]:
    """Yields the parameters of NAME_0, NAME_1, ... up to the first that is missing."""
    for number in itertools.count():
        if f"{name}_{number}" not in params:
            return
        yield params[f"{name}_{number}"]


def _check_player(parts: Parts) -> None:
    for number, size in zip(board.player_place(parts), parts["cells"].shape[1:3], strict=True):
        if ((number < 0) | (number >= size)).any():
            raise UserError("the observation places the player outside of the board")


def _on_all_cells(numbers: Array, plane: Array) -> Array:
    """Broadcasts numbers [B, N] to each cell of a plane: f32[B, rows, columns, N]."""
    return np.broadcast_to(numbers[:, None, None], (*plane.shape[:3], numbers.shape[-1]))


def _shifted(cells: Array) -> Array:
    """Concatenates each cell with its eight neighbours: [B, rows, columns, 9 channels]."""
    rows, columns = cells.shape[1:3]
    padded = np.pad(cells, [(0, 0), (1, 1), (1, 1), (0, 0)])
    copies = [
        padded[:, up : up + rows, right : right + columns]
        for up, right in itertools.product(range(3), repeat=2)
    ]
    return np.concatenate(copies, axis=-1)


def _layer_norm(layer: Params, tokens: Array) -> Array:
    centred = tokens - tokens.mean(-1, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(1e-6))
    normed: Array = centred / deviation * layer["scale"] + layer["shift"]
    return normed


def _attend(block: Params, tokens: Array) -> Array:
    boards, count, channels = tokens.shape
    heads = channels // _HEAD_WIDTH, _HEAD_WIDTH
    qkv = dense(block["asked"], tokens).reshape(boards, count, 3, *heads)
    query, key, value = np.moveaxis(qkv, 2, 0).swapaxes(2, 3)
    scores = query @ key.swapaxes(-1, -2) / np.float32(math.sqrt(_HEAD_WIDTH))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    attended = weights / weights.sum(-1, keepdims=True) @ value
    return dense(block["answered"], attended.swapaxes(1, 2).reshape(boards, count, channels))
