"""Takes the rows of a minibatch out of the samples of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game.tracing import on_tpu

Array = jax.Array
_LANES = 128  # the last axis of an array on a TPU is padded to a multiple of these


def rows_of(samples: Any) -> Callable[[Array], Any]:
    """Returns a function that takes rows i32[M] of all samples (leaves [N, ...]).

    A TPU gathers rows of words as fast as single words, which it gathers one by one. So there the
    narrow leaves are columns of one array, and are gathered together; the values are the same.
    """

    def take_each(rows: Array) -> Any:
        return jax.tree.map(lambda leaf: leaf[rows], samples)

    narrow = [leaf for leaf in jax.tree.leaves(samples) if _is_narrow(leaf)]
    if not narrow or not on_tpu():
        return take_each
    columns = [leaf.reshape(len(leaf), -1) for leaf in narrow]
    ends = np.cumsum([each.shape[1] for each in columns])
    words = jnp.concatenate([jax.lax.bitcast_convert_type(each, jnp.uint32) for each in columns], 1)

    def take_together(rows: Array) -> Any:
        # Words come first from here on, as the rows fill lanes; XLA would undo that otherwise.
        found = jax.lax.optimization_barrier(words[rows].T)
        parts = iter(jnp.split(found, ends[:-1]))

        def take(leaf: Array) -> Array:
            if not _is_narrow(leaf):
                return leaf[rows]
            part = next(parts).T.reshape(len(rows), *leaf.shape[1:])
            return jax.lax.bitcast_convert_type(part, leaf.dtype)

        return jax.tree.map(take, samples)

    return take_together


def _is_narrow(leaf: Array) -> bool:
    return leaf.dtype.itemsize == 4 and leaf.size < _LANES * len(leaf)
