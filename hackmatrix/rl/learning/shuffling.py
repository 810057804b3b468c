"""Random orders, those of `jax.random.permutation`: on a CPU at a quarter of the time."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

Array = jax.Array


def random_order(key: Array, count: int) -> Array:
    """i32[count]: the numbers below `count` in a random order, the same on every platform."""
    # Its type says, as that of the keys, where it differs among devices: a sort does not.
    numbers = jnp.arange(count) + jnp.zeros_like(jax.random.key_data(key)[0], int)
    for _ in range(_rounds(count)):
        key, of_round = jax.random.split(key)
        words = jax.random.bits(of_round, (count,))
        numbers = jax.lax.platform_dependent(words, numbers, cpu=_sorted_at_once, default=_sorted)
    return numbers


def _rounds(count: int) -> int:
    """So many words a number that two numbers hardly ever have the same ones."""
    return math.ceil(3 * math.log(max(count, 1)) / math.log(2**32 - 1))


def _sorted(words: Array, numbers: Array) -> Array:
    """The numbers in the order of their words; of equal words the first one is first."""
    return jax.lax.sort_key_val(words, numbers)[1]


def _sorted_at_once(words: Array, numbers: Array) -> Array:
    """The same. XLA for CPU sorts pairs by calls of a function that compares two of them, and
    single integers by the processor's own comparison: here a word and then its place.
    """
    with jax.enable_x64(True):
        places = jax.lax.iota(jnp.uint64, words.size)
        pairs = jax.lax.sort(words.astype(jnp.uint64) << jnp.uint64(32) | places, is_stable=False)
        order = pairs.astype(jnp.uint32)
    return numbers[order]
