"""A scan that carries its arrays of several numbers a board with the boards last.

A TPU pads the last dimension of an array to a multiple of 128, and XLA for TPUs keeps the carry of
a loop as it is given. With the boards first, the snapshots of a board, 16 x 54 words, take more
than twice their memory, and as much longer to pass over in every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Array = jax.Array
Tree = Any


def scan(
    step: Callable[[Tree, Any], tuple[Tree, Any]], carry: Tree, inputs: Any, boards: int
) -> tuple[Tree, Any]:
    """Equals `jax.lax.scan`, though XLA may round a step differently. Arrays [boards, ...] of the
    carry become [..., boards].
    """
    is_turned = jax.tree.map(lambda leaf: leaf.ndim > 1 and leaf.shape[0] == boards, carry)

    def moved(tree: Tree, source: int, destination: int) -> Tree:
        return jax.tree.map(
            lambda leaf, turned: jnp.moveaxis(leaf, source, destination) if turned else leaf,
            tree,
            is_turned,
        )

    def step_with_boards_last(carry: Tree, given: Any) -> tuple[Tree, Any]:
        after, output = step(moved(carry, -1, 0), given)
        return moved(after, 0, -1), output

    last, outputs = jax.lax.scan(step_with_boards_last, moved(carry, 0, -1), inputs)
    return moved(last, -1, 0), outputs
