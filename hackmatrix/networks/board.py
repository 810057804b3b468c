"""What the networks over cells know of the game's board: where the player stands on it.

A network with the same weights for all cells needs the player's place as a plane.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hackmatrix.networks.place import player_place
from hackmatrix.networks.torso import Parts, Shapes

Array = jax.Array


def refuses(observation: Shapes) -> str | None:
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
    vectors = [part for name, part in parts.items() if name != "cells"]
    return jnp.concatenate(vectors, axis=-1)


def player_plane(parts: Parts) -> Array:
    """f32[..., rows, columns, 1]: 1 in the player's cell."""
    rows, columns = parts["cells"].shape[-3:-1]
    row, column = player_place(parts)
    in_row = jax.nn.one_hot(row, rows, dtype=jnp.float32)
    in_column = jax.nn.one_hot(column, columns, dtype=jnp.float32)
    return (in_row[..., :, None] * in_column[..., None, :])[..., None]
