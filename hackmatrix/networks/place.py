"""Where the player stands on the board, of observations in JAX or in NumPy.

The observation tells it as two numbers, its row and its column as shares of the board.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Array = Any  # of JAX or of NumPy
ROW, COLUMN = 0, 1  # of the part "player"


def player_place(parts: Mapping[str, Array]) -> tuple[Array, Array]:
    """i32[...] each: the player's row and column."""
    rows, columns = parts["cells"].shape[-3:-1]
    row, column = (
        (parts["player"][..., number] * (size - 1)).round().astype("int32")
        for number, size in ((ROW, rows), (COLUMN, columns))
    )
    return row, column
