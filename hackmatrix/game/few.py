"""Rules that few boards need at a time: gather those boards, apply the rule, put them back.

Under vmap a rare branch would run for every board at every step; here its cost follows the number
of boards that take it. On a device with threads for all boards this pays off only for a rule that
is much work: the gather and the scatter take more kernels than the rule itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import slots, tracing
from hackmatrix.game.outline import outlined
from hackmatrix.game.tracing import in_kernel, on_cpu

Array = jax.Array
Tree = TypeVar("Tree")


class Width(NamedTuple):
    """How many boards a rule works on in one pass: one in `one_of` of all boards, but at least
    `least`. In kernels, and off the CPU unless the rule is `much_work`, it is all boards.
    """

    one_of: int
    least: int
    much_work: bool = False

    def among(self, boards: int) -> int:
        """Returns the width, or all boards if at most twice as many: as cheap, and none moves."""
        width = max(self.least, boards // self.one_of)
        return boards if boards <= 2 * width else width

    @property
    def covers_all_boards(self) -> bool:
        return in_kernel() or not (on_cpu() or self.much_work)


# The cost of a pass depends on its width, not on how many of its boards need the rule, and boards
# beyond the width wait for another pass. So a width is about the share of boards that need the rule
# in a step; the comments give how many of 100 boards do in random play. The least widths are some
# tens of boards, below which a pass gets hardly cheaper, or fewer if the rule is much work.
SPECIAL_ACTIONS = Width(one_of=16, least=32)  # 2 siphon or run a program, more when play is good
NEW_BOARDS = Width(one_of=32, least=8, much_work=True)  # 3 get a new stage or a new game
SPAWNING = Width(one_of=32, least=32)  # 10 get a transmission, few a second one
ENEMIES = Width(one_of=4, least=32)  # 70 have an enemy that acts, so 3 passes serve most
LAST_ENEMIES = Width(one_of=32, least=32)  # 5 have more than two enemies that act
LAYOUTS = Width(one_of=16, least=16)  # all new boards: 84 find one in 4 draws, 97 in 16
EVERY_BOARD = Width(one_of=1, least=1)


def apply(
    is_needed: Callable[[Tree], Array],
    rule: Callable[[Tree], Tree],
    boards: Tree,
    width: Width,
    rest: Width | None = None,
) -> Tree:
    """Applies the rule to `width` boards at a time, until none needs it, or at most `rest` do.

    `boards` has leaves [E, ...]. The rule takes and returns such a pytree of fewer boards, and must
    make every board stop needing it after some passes. With a `rest` that covers all boards, or
    with a `rest` where `width` covers them, it is not applied: the next rule serves all boards.
    """
    if width.covers_all_boards:
        if rest:
            return boards
        return tracing.while_some(
            is_needed, lambda boards: _select_tree(is_needed(boards), rule(boards), boards), boards
        )
    number = is_needed(boards).shape[0]
    at_a_time, may_remain = width.among(number), rest.among(number) if rest else 0
    if may_remain == number:
        return boards

    def too_many(boards: Tree) -> Array:
        return is_needed(boards).sum(dtype=jnp.int32) > may_remain

    def apply_to_some(boards: Tree) -> Tree:
        needed = is_needed(boards)
        if number == at_a_time:
            return _select_tree(needed, rule(boards), boards)
        chosen = _first(needed, jnp.arange(at_a_time))
        gathered = jax.tree.map(lambda leaf: _take(leaf, chosen), boards)
        put_back = _putting_back(needed, chosen)
        return jax.tree.map(
            # Leaves that the rule did not change need not be put back.
            lambda old, before, after: old if after is before else put_back(old, after),
            boards,
            gathered,
            rule(gathered),
        )

    return jax.lax.while_loop(too_many, apply_to_some, boards)


def apply_once(needed: Array, rule: Callable[[Tree], Tree], boards: Tree, width: Width) -> Tree:
    """Applies the rule once to each board that needs it, `width` boards at a time."""
    if in_kernel():
        return tracing.where_some(
            needed, lambda: _select_tree(needed, rule(boards), boards), boards
        )
    if width.covers_all_boards:
        return _select_tree(needed, rule(boards), boards)

    def once(waiting: tuple[Array, Tree]) -> tuple[Array, Tree]:
        return jnp.zeros_like(waiting[0]), rule(waiting[1])

    return apply(lambda waiting: waiting[0], once, (needed, boards), width)[1]


def repeat(
    is_needed: Callable[[Tree], Array],
    rule: Callable[[Tree], Tree],
    boards: Tree,
    width: Width,
    reselect: bool = False,
) -> Tree:
    """Applies the rule to `width` boards until none of these needs it, then to the next ones.

    With `reselect` it chooses the boards again after each application, for rules that some boards
    need far more often than others. The rule must not change boards that do not need it.
    """

    def until_done(boards: Tree) -> Tree:
        if in_kernel():
            return tracing.while_some(is_needed, rule, boards)
        return jax.lax.while_loop(lambda boards: is_needed(boards).any(), rule, boards)

    number = is_needed(boards).shape[0]
    if width.covers_all_boards or number == width.among(number):
        return until_done(boards)
    return apply(is_needed, rule if reselect else until_done, boards, width)


@outlined
def _first(needed: Array, rank: Array) -> Array:
    """Returns the indices of the needed boards of these ranks; past the end if there are fewer."""
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


def _putting_back(needed: Array, chosen: Array) -> Callable[[Array, Array], Array]:
    """Returns a function that puts the values of the chosen boards into a leaf.

    The chosen boards are the first of the needed ones. A scatter takes one kernel per leaf, so off
    the CPU each board looks up its own value instead, which is one kernel for all leaves.
    """
    if on_cpu():
        return lambda leaf, values: leaf.at[chosen].set(
            values,
            mode="drop",
            unique_indices=True,
            indices_are_sorted=True,
            wrap_negative_indices=False,
        )
    rank = jnp.cumsum(needed, dtype=jnp.int32) - 1
    is_chosen = needed & (rank < chosen.shape[0])
    return lambda leaf, values: select(is_chosen, _take(values, rank), leaf)


def _select_tree(mask: Array, chosen: Tree, other: Tree) -> Tree:
    return jax.tree.map(
        lambda new, old: old if new is old else select(mask, new, old), chosen, other
    )


def select(mask: Array, chosen: Array, other: Array) -> Array:
    """Returns `chosen` for the boards of the mask, else `other` ([E, ...])."""
    mask = mask.reshape(mask.shape + (1,) * (other.ndim - mask.ndim))
    if other.dtype == bool:  # kernels cannot select flags
        return (mask & chosen) | (~mask & other)
    return jnp.where(mask, chosen, other)
