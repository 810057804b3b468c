"""What networks over cells, in JAX or in NumPy, know of the game's board: where the player stands.

The observation tells it as two numbers, the player's row and column as shares of the board. A
network with the same weights for all cells needs the place as a plane.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Array = Any  # of JAX or of NumPy; xp is the namespace of its functions
Parts = Mapping[str, Array]
ROW, COLUMN = 0, 1  # of the part "player"


def refuses(observation: Mapping[str, tuple[int, ...]]) -> str | None:
    """Why a network over cells cannot see observations of these parts; None if it can."""
    cells, player = observation.get("cells", ()), observation.get("player", ())
    vectors = all(len(shape) == 1 for name, shape in observation.items() if name != "cells")
    if len(cells) == 3 and len(player) == 1 and player[0] >= 2 and vectors:
        return None
    there = ", ".join(f"{name} {list(shape)}" for name, shape in observation.items())
    return (
        "it needs the parts cells [rows, columns, features] and player, which begins with the "
        f"player's row and column, beside other vectors; here are {there}: use network=mlp"
    )


def numbers(parts: Parts) -> Array:
    """f32[..., N]: all that is seen besides the cells."""
    xp = parts["cells"].__array_namespace__()
    vectors = [part for name, part in parts.items() if name != "cells"]
    return xp.concatenate(vectors, axis=-1)


def player_place(parts: Parts) -> tuple[Array, Array]:
    """i32[...] each: the player's row and column."""
    rows, columns = parts["cells"].shape[-3:-1]
    row, column = (
        (parts["player"][..., number] * (size - 1)).round().astype("int32")
        for number, size in ((ROW, rows), (COLUMN, columns))
    )
    return row, column


def player_plane(parts: Parts) -> Array:
    """f32[..., rows, columns, 1]: 1 in the player's cell."""
    xp = parts["cells"].__array_namespace__()
    in_row, in_column = (
        (place[..., None] == xp.arange(size, dtype="int32")).astype("float32")
        for place, size in zip(player_place(parts), parts["cells"].shape[-3:-1], strict=True)
    )
    return (in_row[..., :, None] * in_column[..., None, :])[..., None]
