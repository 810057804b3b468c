"""Types of values inside `shard_map`, which say along which axes of the mesh they vary."""

from __future__ import annotations

from typing import Any, TypeVar

import jax

Tree = TypeVar("Tree")


def like(reference: jax.Array, tree: Tree) -> Tree:
    """Returns the tree with leaves that vary along every axis that the reference varies along. A
    constant (a reward of -1 for each step, say) does not vary, and the carry of a loop must not
    begin as a constant and go on as a varying value.
    """
    axes = _axes(reference)

    def one(leaf: Any) -> Any:
        missing = tuple(axes - _axes(leaf))
        return jax.lax.pcast(leaf, missing, to="varying") if missing else leaf

    return jax.tree.map(one, tree)


def _axes(leaf: Any) -> frozenset[str]:
    return frozenset(jax.typeof(leaf).manual_axis_type.varying)
