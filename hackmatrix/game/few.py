"""Rules that few boards need at a time: gather those boards, work on them, put them back.

Under vmap a rare branch would run for every board at every step; here its cost follows the number of boards that
take it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

Array = jax.Array
Tree = TypeVar("Tree")


def apply(needed: Array, rule: Callable[[Tree], Tree], boards: Tree, width: int) -> Tree:
    """The boards ([E, ...] leaves) with the rule applied to those that need it, `width` at a time."""

    def advance(waiting: tuple[Array, Tree]) -> tuple[Array, Tree]:
        pending, boards = waiting
        return jnp.zeros_like(pending), rule(boards)

    return work_off((needed, boards), lambda waiting: waiting[0], advance, width)[1]


def work_off(
    boards: Tree, is_pending: Callable[[Tree], Array], advance: Callable[[Tree], Tree], width: int
) -> Tree:
    """Advances pending boards, `width` at a time, until none is pending."""

    def some_pending(boards: Tree) -> Array:
        return jnp.any(is_pending(boards))

    def advance_some(boards: Tree) -> Tree:
        pending = is_pending(boards)
        if pending.shape[0] <= width:
            return jax.tree.map(
                lambda old, new: old if new is old else _select(pending, new, old),
                boards, advance(boards),
            )  # fmt: skip
        chosen = _first(pending, width)
        gathered = jax.tree.map(lambda leaf: leaf.at[chosen].get(mode="clip"), boards)
        return jax.tree.map(
            # What the rule left alone need not be put back.
            lambda old, before, after: old if after is before else _put(old, chosen, after),
            boards, gathered, advance(gathered),
        )  # fmt: skip

    return jax.lax.while_loop(some_pending, advance_some, boards)


def _first(pending: Array, width: int) -> Array:
    """The indices of the first `width` pending boards, followed by indices past the end."""
    boards = pending.shape[0]
    indices = jnp.nonzero(pending, size=width, fill_value=boards)[0].astype(jnp.int32)
    return jnp.where(indices < boards, indices, boards + jnp.arange(width, dtype=jnp.int32))


def _put(leaf: Array, chosen: Array, values: Array) -> Array:
    return leaf.at[chosen].set(values, mode="drop", unique_indices=True, indices_are_sorted=True)


def _select(mask: Array, chosen: Array, other: Array) -> Array:
    return jnp.where(mask.reshape(mask.shape + (1,) * (other.ndim - mask.ndim)), chosen, other)
