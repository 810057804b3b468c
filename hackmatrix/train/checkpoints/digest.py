"""A digest of every leaf of a tree: a number that tells whether any bit of it has changed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


@jax.jit
def digest(tree: Any) -> Array:
    """u32[leaves], in the order of the leaves; computed where they lie, and the same however they
    are spread over devices and processes.

    Each is the sum of its elements' bits, every element times an odd number that is drawn from its
    position. A product with an odd number loses nothing modulo 2^32, so a change within one element
    always shows; changes to several stay hidden once in 2^32 times.
    """
    return jnp.stack([_digest(leaf) for leaf in jax.tree.leaves(tree)])


def has_digest(kind: Any) -> bool:
    """Whether arrays of that type can have one."""
    if jnp.issubdtype(kind, jax.dtypes.prng_key):
        return True
    return jax.dtypes.itemsize_bits(kind) in (8, 16, 32)


def _digest(leaf: Array) -> Array:
    bits = _bits(leaf)
    return jnp.sum(bits * _weights(bits.shape), dtype=jnp.uint32)


def _bits(leaf: Array) -> Array:
    """u32 of the shape of the leaf; keys have a last axis more."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if leaf.dtype == jnp.bool_:
        return leaf.astype(jnp.uint32)
    unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[leaf.dtype.itemsize]
    return jax.lax.bitcast_convert_type(leaf, unsigned).astype(jnp.uint32)


def _weights(shape: tuple[int, ...]) -> Array:
    """An odd number for every position; the last steps of murmur3 make it look random."""
    number = jnp.zeros(shape, jnp.uint32)
    for axis, size in enumerate(shape):
        number = number * size + jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
    number ^= number >> 16
    number *= np.uint32(0x85EBCA6B)
    number ^= number >> 13
    number *= np.uint32(0xC2B2AE35)
    number ^= number >> 16
    return number | 1
