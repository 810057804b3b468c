"""A digest of every leaf of a pytree: a number that shows whether any of its bits has changed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


@jax.jit
def digest(tree: Any) -> Array:
    """Returns the digests, u32[leaves], in the order of the leaves. They are computed where the
    leaves are, and do not depend on how these are sharded over devices and processes.

    A digest is the sum of the bits of all elements, each multiplied by an odd number that is hashed
    from its position. Multiplication by an odd number is invertible modulo 2^32, so a change of one
    element always shows; changes of several stay hidden with a probability of 2^-32.
    """
    return jnp.stack([_digest(leaf) for leaf in jax.tree.leaves(tree)])


def has_digest(kind: Any) -> bool:
    """Whether arrays of this dtype can have a digest."""
    if jnp.issubdtype(kind, jax.dtypes.prng_key):
        return True
    return jax.dtypes.itemsize_bits(kind) in (8, 16, 32)


def _digest(leaf: Array) -> Array:
    bits = _bits(leaf)
    return jnp.sum(bits * _weights(bits.shape), dtype=jnp.uint32)


def _bits(leaf: Array) -> Array:
    """Returns the bits of every element as u32, in the leaf's shape; keys have one more axis."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if leaf.dtype == jnp.bool_:
        return leaf.astype(jnp.uint32)
    unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[leaf.dtype.itemsize]
    return jax.lax.bitcast_convert_type(leaf, unsigned).astype(jnp.uint32)


def _weights(shape: tuple[int, ...]) -> Array:
    """Returns an odd number for every position, u32[shape], hashed by the finaliser of murmur3."""
    number = jnp.zeros(shape, jnp.uint32)
    for axis, size in enumerate(shape):
        number = number * size + jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
    number ^= number >> 16
    number *= np.uint32(0x85EBCA6B)
    number ^= number >> 13
    number *= np.uint32(0xC2B2AE35)
    number ^= number >> 16
    return number | 1
