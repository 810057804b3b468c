"""The player's place on the board, for networks over cells, in JAX or in NumPy.

An observation has the player's row and column as two numbers from 0 to 1, the last row and column
being 1. A network with the same weights for all cells needs the place as a plane.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Array = Any  # of JAX or NumPy; `xp` below is its array namespace
Parts = Mapping[str, Array]
ROW, COLUMN = 0, 1  # indices into the part "player"


def refuses(observation: Mapping[str, tuple[int, ...]]) -> str | None:
    """Returns why a network over cells does not support these parts; None if it does."""
    cells, player = observation.get("cells", ()), observation.get("player", ())
    vectors = all(len(shape) == 1 for name, shape in observation.items() if name != "cells")
    if len(cells) == 3 and len(player) == 1 and player[0] >= 2 and vectors:
        return None
    given = ", ".join(f"{name} {list(shape)}" for name, shape in observation.items())
    return (
        "it needs a part cells [rows, columns, features], a part player that begins with the "
        "player's row and column, and otherwise only vectors, but this environment has "
        f"{given}; use network=mlp"
    )


def numbers(parts: Parts) -> Array:
    """Returns all parts but the cells, concatenated: f32[..., N]."""
    xp = parts["cells"].__array_namespace__()
    vectors = [part for name, part in parts.items() if name != "cells"]
    return xp.concatenate(vectors, axis=-1)


def player_place(parts: Parts) -> tuple[Array, Array]:
    """Returns the player's row and column, i32[...] each."""
    rows, columns = parts["cells"].shape[-3:-1]
    row, column = (
        (parts["player"][..., number] * (size - 1)).round().astype("int32")
        for number, size in ((ROW, rows), (COLUMN, columns))
    )
    return row, column


def player_plane(parts: Parts) -> Array:
    """Returns f32[..., rows, columns, 1]: 1 in the player's cell, 0 elsewhere."""
    xp = parts["cells"].__array_namespace__()
    in_row, in_column = (
        (place[..., None] == xp.arange(size, dtype="int32")).astype("float32")
        for place, size in zip(player_place(parts), parts["cells"].shape[-3:-1], strict=True)
    )
    return (in_row[..., :, None] * in_column[..., None, :])[..., None]
