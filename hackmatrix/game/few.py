"""Rules that few boards need at a time: gather those boards, work on them, put them back.

Under vmap a rare branch would run for every board at every step; here its cost follows the number
of boards that take it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import slots
from hackmatrix.game.outline import outlined

Array = jax.Array
Tree = TypeVar("Tree")


def apply(
    is_needed: Callable[[Tree], Array],
    rule: Callable[[Tree], Tree],
    boards: Tree,
    width: int,
    enough: int = 0,
) -> Tree:
    """Applies the rule, `width` boards at a time, until at most `enough` boards need it.

    `boards` has leaves [E, ...]; the rule takes and returns such a tree of up to `width` boards,
    and in the end makes itself needless.
    """

    def too_many(boards: Tree) -> Array:
        return is_needed(boards).sum(dtype=jnp.int32) > enough

    def apply_to_some(boards: Tree) -> Tree:
        needed = is_needed(boards)
        if needed.shape[0] <= width:
            return _merge(needed, rule(boards), boards)
        chosen = _first(needed, jnp.arange(width))
        gathered = jax.tree.map(lambda leaf: _take(leaf, chosen), boards)
        return jax.tree.map(
            # What the rule left alone need not be put back.
            lambda old, before, after: old if after is before else _put(old, chosen, after),
            boards, gathered, rule(gathered),
        )  # fmt: skip

    return jax.lax.while_loop(too_many, apply_to_some, boards)


def apply_once(needed: Array, rule: Callable[[Tree], Tree], boards: Tree, width: int) -> Tree:
    """The boards with the rule applied once to those that need it, `width` at a time."""

    def once(waiting: tuple[Array, Tree]) -> tuple[Array, Tree]:
        return jnp.zeros_like(waiting[0]), rule(waiting[1])

    return apply(lambda waiting: waiting[0], once, (needed, boards), width)[1]


def repeat(
    is_needed: Callable[[Tree], Array], rule: Callable[[Tree], Tree], boards: Tree, width: int
) -> Tree:
    """Applies the rule over and over to `width` boards, until none of these needs it, then to the
    next. The rule does no harm to boards that do not need it.
    """

    def to_the_end(boards: Tree) -> Tree:
        return jax.lax.while_loop(lambda boards: is_needed(boards).any(), rule, boards)

    if is_needed(boards).shape[0] <= width:
        return to_the_end(boards)
    return apply(is_needed, to_the_end, boards, width)


@outlined
def _first(needed: Array, rank: Array) -> Array:
    """The indices of the needed boards of these ranks; past the end where there are not so many."""
    boards = needed.shape[0]
    flags = jnp.pad(needed, (0, -boards % 32)).reshape(-1, 32)
    words = jnp.where(flags, slots.ONE << np.arange(32, dtype=np.uint32), 0).sum(
        1, dtype=jnp.uint32
    )
    ends = jnp.cumsum(slots.count(words))
    which = jnp.searchsorted(ends, rank, side="right", method="compare_all")
    word = _take(words, which)
    before = _take(ends, which) - slots.count(word)
    index = 32 * which + slots.nth(word, rank - before).astype(jnp.int32)
    return jnp.where(rank < ends[-1], index, boards + rank)


def _take(leaf: Array, chosen: Array) -> Array:
    return leaf.at[chosen].get(mode="clip", indices_are_sorted=True, wrap_negative_indices=False)


def _put(leaf: Array, chosen: Array, values: Array) -> Array:
    return leaf.at[chosen].set(
        values, mode="drop", unique_indices=True, indices_are_sorted=True,
        wrap_negative_indices=False,
    )  # fmt: skip


def _merge(mask: Array, chosen: Tree, other: Tree) -> Tree:
    return jax.tree.map(
        lambda new, old: old if new is old else select(mask, new, old), chosen, other
    )


def select(mask: Array, chosen: Array, other: Array) -> Array:
    """`chosen` on the boards of the mask, else `other` ([E, ...])."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (other.ndim - mask.ndim)), chosen, other)
