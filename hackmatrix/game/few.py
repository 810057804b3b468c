"""Rules that few boards need at a time: gather those boards, work on them, put them back.

Under vmap a rare branch would run for every board at every step; here its cost follows the number of boards that
take it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import slots

Array = jax.Array
Tree = TypeVar("Tree")


def apply(needed: Array, rule: Callable[[Tree], Tree], boards: Tree, width: int) -> Tree:
    """The boards ([E, ...] leaves) with the rule applied to those that need it, `width` at a time."""

    def advance(waiting: tuple[Array, Tree]) -> tuple[Array, Tree]:
        pending, boards = waiting
        return jnp.zeros_like(pending), rule(boards)

    return work_off((needed, boards), lambda waiting: waiting[0], advance, width)[1]


def work_off(
    boards: Tree,
    is_pending: Callable[[Tree], Array],
    advance: Callable[[Tree], Tree],
    *widths: int,
) -> Tree:
    """Advances pending boards, as many at a time as the first width, until none is pending.

    With further, smaller widths, each takes over as soon as the pending boards fit into it.
    """
    for width, enough in zip(widths, (*widths[1:], 0), strict=True):
        boards = _work_off_to(boards, is_pending, advance, width, enough)
    return boards


def _work_off_to(
    boards: Tree,
    is_pending: Callable[[Tree], Array],
    advance: Callable[[Tree], Tree],
    width: int,
    enough: int,
) -> Tree:
    def too_many(boards: Tree) -> Array:
        return is_pending(boards).sum(dtype=jnp.int32) > enough

    def advance_some(boards: Tree) -> Tree:
        pending = is_pending(boards)
        if pending.shape[0] <= width:
            return jax.tree.map(
                lambda old, new: old if new is old else select(pending, new, old),
                boards, advance(boards),
            )  # fmt: skip
        chosen = _first(pending, width)
        gathered = jax.tree.map(lambda leaf: leaf.at[chosen].get(mode="clip"), boards)
        return jax.tree.map(
            # What the rule left alone need not be put back.
            lambda old, before, after: old if after is before else _put(old, chosen, after),
            boards, gathered, advance(gathered),
        )  # fmt: skip

    return jax.lax.while_loop(too_many, advance_some, boards)


def _first(pending: Array, width: int) -> Array:
    """The indices of the first `width` pending boards, followed by indices past the end."""
    boards = pending.shape[0]
    flags = jnp.pad(pending, (0, -boards % 32)).reshape(-1, 32)
    words = jnp.where(flags, slots.ONE << np.arange(32, dtype=np.uint32), 0).sum(1, dtype=jnp.uint32)
    ends = jnp.cumsum(slots.count(words))
    rank = jnp.arange(width, dtype=jnp.int32)
    which = jnp.searchsorted(ends, rank, side="right", method="scan_unrolled")
    word = words.at[which].get(mode="clip")
    before = ends.at[which].get(mode="clip") - slots.count(word)
    index = 32 * which + slots.nth(word, rank - before).astype(jnp.int32)
    return jnp.where(rank < ends[-1], index, boards + rank)


def _put(leaf: Array, chosen: Array, values: Array) -> Array:
    return leaf.at[chosen].set(values, mode="drop", unique_indices=True, indices_are_sorted=True)


def select(mask: Array, chosen: Array, other: Array) -> Array:
    """`chosen` on the boards of the mask, else `other` ([E, ...])."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (other.ndim - mask.ndim)), chosen, other)
