"""A scan that carries its many small arrays as a few large ones.

XLA for GPUs updates the carry of a loop in place. An array that is still read after its successor
is made is copied first, and each copy is an operation of its own: some fifty in a step of a
rollout, as a board of the game is a hundred words. Words in one array are written at once, when all
have been read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

Array = jax.Array
Tree = Any
_TYPES = (jnp.uint32, jnp.int32, jnp.float32, jnp.bool_)


class _Packed(struct.PyTreeNode):
    """A tree whose leaves of words or flags [E] are the rows of one array."""

    words: Array  # u32[N, E]
    others: list[Array]
    # The dtype of each leaf that is a row, None for one of the others.
    types: tuple[jnp.dtype | None, ...] = struct.field(pytree_node=False)
    structure: jax.tree_util.PyTreeDef = struct.field(pytree_node=False)

    def unpack(self) -> Tree:
        rows, others = iter(self.words), iter(self.others)
        leaves = [next(others) if kind is None else _read(next(rows), kind) for kind in self.types]
        return jax.tree.unflatten(self.structure, leaves)


def scan(
    step: Callable[[Tree, Any], tuple[Tree, Any]], carry: Tree, inputs: Any, boards: int
) -> tuple[Tree, Any]:
    """Equals `jax.lax.scan`, to the bit; packs the words and flags [boards] of the carry."""

    def step_packed(carry: _Packed, given: Any) -> tuple[_Packed, Any]:
        after, output = step(carry.unpack(), given)
        return _pack(after, boards), output

    packed, outputs = jax.lax.scan(step_packed, _pack(carry, boards), inputs)
    return packed.unpack(), outputs


def _pack(tree: Tree, boards: int) -> _Packed:
    leaves, structure = jax.tree.flatten(tree)
    is_row = [leaf.shape == (boards,) and leaf.dtype in _TYPES for leaf in leaves]
    rows = [leaf for leaf, chosen in zip(leaves, is_row, strict=True) if chosen]
    others = [leaf for leaf, chosen in zip(leaves, is_row, strict=True) if not chosen]
    types = tuple(
        leaf.dtype if chosen else None for leaf, chosen in zip(leaves, is_row, strict=True)
    )
    return _Packed(jnp.stack([_word(row) for row in rows]), others, types, structure)


def _word(leaf: Array) -> Array:
    if leaf.dtype == bool:
        return leaf.astype(jnp.uint32)
    return jax.lax.bitcast_convert_type(leaf, jnp.uint32)


def _read(word: Array, kind: jnp.dtype) -> Array:
    if kind == jnp.bool_:
        return word != 0
    return jax.lax.bitcast_convert_type(word, kind)
