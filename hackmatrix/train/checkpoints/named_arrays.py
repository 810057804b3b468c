"""The leaves of a pytree by their paths, and the differences between two trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax

_NONE = "none"


def named(tree: Any) -> dict[str, Any]:
    """Returns the leaves by path, such as learner/params/Dense_0/kernel, in the tree's order."""
    return {_name(path): leaf for path, leaf in jax.tree.leaves_with_path(tree)}


def names(tree: Any) -> list[str]:
    """Returns the names of the leaves. Two are equal if a name with a slash reads like a path."""
    return [_name(path) for path, _ in jax.tree.leaves_with_path(tree)]


def described(tree: Any) -> dict[str, str]:
    """Returns shape and dtype of every leaf by path, such as "(1545, 256) float32"."""
    return {name: f"{leaf.shape} {leaf.dtype}" for name, leaf in named(tree).items()}


def mismatches(saved: Mapping[str, str], like: Any) -> list[str]:
    """Returns a line for every leaf whose saved shape or dtype differs from that in `like`, except
    in subtrees that are None in `like`.
    """
    wanted = described(like)
    unwanted = tuple(_unwanted(like))
    names = [*wanted, *(name for name in saved if name not in wanted)]
    return [
        f"{name}: checkpoint has {saved.get(name, _NONE)}, this run has {wanted.get(name, _NONE)}"
        for name in names
        if saved.get(name) != wanted.get(name) and not f"{name}/".startswith(unwanted)
    ]


def _unwanted(like: Any) -> Iterator[str]:
    """Yields the path prefix of every None in `like`."""
    for path, leaf in jax.tree.leaves_with_path(like, is_leaf=lambda leaf: leaf is None):
        if leaf is None:
            yield f"{_name(path)}/"


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
