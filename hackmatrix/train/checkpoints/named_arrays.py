"""The leaves of a pytree by their paths, and the differences between two trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax

_NONE = "none"


def named(tree: Any) -> dict[str, Any]:
    """The leaves by their paths, such as learner/params/Dense_0/kernel, in the tree's order."""
    return {_name(path): leaf for path, leaf in jax.tree.leaves_with_path(tree)}


def described(tree: Any) -> dict[str, str]:
    """Shape and type of every leaf, such as (1545, 256) float32."""
    return {name: f"{leaf.shape} {leaf.dtype}" for name, leaf in named(tree).items()}


def mismatches(saved: Mapping[str, str], like: Any) -> list[str]:
    """A line for every leaf that was saved otherwise than it is wanted. What is None in `like` is
    not wanted.
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
    """Where the paths begin that `like` has a None for."""
    for path, leaf in jax.tree.leaves_with_path(like, is_leaf=lambda leaf: leaf is None):
        if leaf is None:
            yield f"{_name(path)}/"


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
