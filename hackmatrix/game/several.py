"""Rules for each of a few numbers (cells, draws, blocks) on all boards, and constant tables.

Outside of kernels the numbers form an axis in front of the boards, so that operations vectorize
over the boards. In a kernel, whose values have no such axis, the rule is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game.outline import outlined
from hackmatrix.game.tracing import in_gpu_kernel, in_kernel, while_some

Array = jax.Array
Tree = TypeVar("Tree")
# A single number, or all of them along an axis in front of the boards.
Number = Any


def numbers(count: int, boards: Array) -> np.ndarray:
    """Returns 0 to count - 1 along an axis in front of those of these boards."""
    return np.arange(count).reshape(count, *(1,) * boards.ndim)


def each(count: int, rule: Callable[[Number], Tree], boards: Array) -> list[Tree]:
    """Returns the results of the rule for the numbers from 0 to count - 1."""
    if in_kernel():
        return [rule(number) for number in range(count)]
    return _apart(outlined(lambda: rule(numbers(count, boards)))(), count)


def union(count: int, rule: Callable[[Number], Tree], boards: Array) -> Tree:
    """Returns the bitwise or of the rule's results (words) for the numbers from 0 to count - 1."""
    if not in_kernel():
        return jax.tree.map(_any_of, rule(numbers(count, boards)))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(rule, 0))
    return jax.lax.fori_loop(
        0, count, lambda number, found: jax.tree.map(jnp.bitwise_or, found, rule(number)), nothing
    )


def repeated(count: int, rule: Callable[[Tree], Tree], value: Tree) -> Tree:
    """Applies the rule `count` times, unrolled for XLA. A kernel loops, since its compiler gains
    nothing from unrolling; for GPUs the loop ends as soon as nothing changes.
    """
    if in_gpu_kernel():
        return _until_unchanged(count, rule, value)
    if in_kernel():
        return jax.lax.fori_loop(0, count, lambda _, value: rule(value), value)
    for _ in range(count):
        value = rule(value)
    return value


def _until_unchanged(count: int, rule: Callable[[Tree], Tree], value: Tree) -> Tree:
    """Applies the rule `count` times, or until it changes the value of no board. That is often much
    earlier in a kernel for GPUs, where only the boards of a warp must agree.
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
    """Returns the results of the rule for several tuples of arguments, one batch of boards each."""
    if in_kernel():
        return [rule(*place) for place in places]
    return _apart(rule(*jax.tree.map(lambda *each: jnp.stack(each), *places)), len(places))


def look_up(table: Sequence[int] | np.ndarray, index: Array) -> Array:
    """Looks up entries of a constant table without a gather. Out of range is the first entry."""
    first, *rest = np.asarray(table)
    found = jnp.full_like(index, first, dtype=first.dtype)
    for number, entry in enumerate(rest, start=1):
        found = jnp.where(index == number, entry, found)
    return found


def _apart(results: Tree, count: int) -> list[Tree]:
    return [jax.tree.map(lambda leaf, n=n: leaf[n], results) for n in range(count)]


def _any_of(words: Array) -> Array:
    """Returns the bitwise or along the first axis."""
    return jax.lax.reduce(words, np.uint32(0), jax.lax.bitwise_or, (0,))
