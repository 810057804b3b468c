"""A rule for each of a few numbers (cells, draws, blocks) on all boards, and constant tables.

In a program the numbers lie along an axis in front of the boards, so that whole vectors of boards
are treated alike. In a kernel, whose values have no such axis, the rule is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game.outline import outlined
from hackmatrix.game.tracing import for_gpu, in_kernel, while_some

Array = jax.Array
Tree = TypeVar("Tree")
# A number of its own, or all of them along an axis in front of the boards.
Number = Any


def numbers(count: int, boards: Array) -> np.ndarray:
    """0 to count - 1, in front of the axes of these boards."""
    return np.arange(count).reshape(count, *(1,) * boards.ndim)


def each(count: int, rule: Callable[[Number], Tree], boards: Array) -> list[Tree]:
    """The results of the rule for the numbers from 0 to count - 1."""
    if in_kernel():
        return [rule(number) for number in range(count)]
    return _apart(outlined(lambda: rule(numbers(count, boards)))(), count)


def union(count: int, rule: Callable[[Number], Tree], boards: Array) -> Tree:
    """All results of the rule, which are words, in one: their bitwise or."""
    if not in_kernel():
        return jax.tree.map(_any_of, rule(numbers(count, boards)))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(rule, 0))
    return jax.lax.fori_loop(
        0, count, lambda number, found: jax.tree.map(jnp.bitwise_or, found, rule(number)), nothing
    )


def repeated(count: int, rule: Callable[[Tree], Tree], value: Tree) -> Tree:
    """The rule applied so many times: a loop in a kernel, where there is no compiler that is the
    faster for seeing it written out.
    """
    if for_gpu():
        return _until_unchanged(count, rule, value)
    if in_kernel():
        return jax.lax.fori_loop(0, count, lambda _, value: rule(value), value)
    for _ in range(count):
        value = rule(value)
    return value


def _until_unchanged(count: int, rule: Callable[[Tree], Tree], value: Tree) -> Tree:
    """The same, as far as the value changes on any board: few boards are asked here, and the rule
    has often done its work long before the last time.
    """

    def is_needed(loop: tuple[Array, Array, Tree]) -> Array:
        number, is_changing, _ = loop
        return is_changing & (number < count)

    def once_more(loop: tuple[Array, Array, Tree]) -> tuple[Array, Array, Tree]:
        number, _, before = loop
        after = rule(before)
        changes = jax.tree.map(jnp.not_equal, after, before)
        return number + 1, jax.tree.reduce(jnp.logical_or, changes), after

    first = jax.tree.leaves(value)[0]
    begin = jnp.zeros_like(first, jnp.int32), jnp.ones_like(first, bool), value
    return while_some(is_needed, once_more, begin)[2]


def for_all(rule: Callable[..., Tree], *places: Any) -> list[Tree]:
    """The results of the rule for several trees of boards, whose leaves are its arguments."""
    if in_kernel():
        return [rule(*place) for place in places]
    return _apart(rule(*jax.tree.map(lambda *each: jnp.stack(each), *places)), len(places))


def look_up(table: Sequence[int] | np.ndarray, index: Array) -> Array:
    """The entry of a constant table, without a gather. Past its end it is the first one."""
    first, *rest = np.asarray(table)
    found = jnp.full_like(index, first, dtype=first.dtype)
    for number, entry in enumerate(rest, start=1):
        found = jnp.where(index == number, entry, found)
    return found


def _apart(results: Tree, count: int) -> list[Tree]:
    return [jax.tree.map(lambda leaf, n=n: leaf[n], results) for n in range(count)]


def _any_of(words: Array) -> Array:
    """The bitwise or along the first axis."""
    return jax.lax.reduce(words, np.uint32(0), jax.lax.bitwise_or, (0,))
