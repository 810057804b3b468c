"""Types of values within `shard_map`, which tell along which axes of the mesh they differ."""

from __future__ import annotations

from typing import Any, TypeVar

import jax

Tree = TypeVar("Tree")


def like(reference: jax.Array, tree: Tree) -> Tree:
    """The same values, of a type that differs among devices wherever the reference does. A constant
    (a reward of -1 for each step, say) does not, and a loop must not begin with one and go on with
    what differs.
    """
    axes = _axes(reference)

    def one(leaf: Any) -> Any:
        missing = tuple(axes - _axes(leaf))
        return jax.lax.pcast(leaf, missing, to="varying") if missing else leaf

    return jax.tree.map(one, tree)


def _axes(leaf: Any) -> frozenset[str]:
    return frozenset(jax.typeof(leaf).manual_axis_type.varying)
