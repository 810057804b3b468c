"""Random keys, derived from what they are for.

A draw depends only on (seed, purpose, update, step, number of the environment), so it is the same
on any mesh.

All draws equal those of `jax.random`. They are computed here because on a CPU `jax.random` runs
loops that take several times as long as the same arithmetic unrolled (here and in
`hackmatrix.game.randomness`), and sorts pairs of arrays where one array of packed words will do.
"""

from __future__ import annotations

import functools
import math
from enum import IntEnum

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game.outline import outlined
from hackmatrix.game.randomness import as_key, words

Array = jax.Array
# Explicit, whatever JAX's default is: other generators draw differently under vmap.
_GENERATOR = "threefry2x32"


class Purpose(IntEnum):
    PARAMETERS = 0
    RESET = 1
    ACT = 2
    STEP = 3
    SHUFFLE = 4
    PLAN = 5
    NEW_GAMES = 6
    CUT_OFF = 7


def seed_key(seed: Array | int) -> Array:
    if isinstance(seed, int):
        seed &= 0xFFFFFFFF  # as jax.random.key does with up to 64 bits
    return jax.random.key(seed, impl=_GENERATOR)


def key_for(key: Array, purpose: Purpose, *numbers: Array | int) -> Array:
    """Returns the key of a purpose and further numbers, such as an update, a step or an epoch."""
    for number in (purpose, *numbers):
        key = fold_in(key, number)
    return key


def fold_in(keys: Array, numbers: Array | int) -> Array:
    """Returns `jax.random.fold_in(key, number)` for each key and number, broadcast together."""
    folded = words(as_key(keys), 0, jnp.uint32(numbers))
    return jax.random.wrap_key_data(jnp.stack(folded, axis=-1), impl=_GENERATOR)


def gumbel(keys: Array, number: int) -> Array:
    """Returns f32[..., number]: the draws of `jax.random.gumbel` with each of the keys [...]."""
    # Outlined, as XLA for CPUs would fuse it into an argmax and compute the logarithms one by one.
    return outlined(functools.partial(_gumbel, number=number))(jax.random.key_data(keys))


def permutation(keys: Array, number: int) -> Array:
    """Returns i32[..., number]: the permutation by `jax.random.permutation` with each of the keys
    [...]. It sorts by random words, several times if there are so many that two may be equal.
    """
    order = jnp.broadcast_to(jnp.arange(number), (*keys.shape, number))
    for _ in range(math.ceil(3 * math.log(number) / math.log(2**32 - 1))):
        keys, own = fold_in(keys, 0), fold_in(keys, 1)
        places = _sorted_places(_random(jax.random.key_data(own), number))
        order = jnp.take_along_axis(order, places, -1)
    return order


def _sorted_places(random: Array) -> Array:
    """Returns the stable argsort of words u32[..., N]: i32[..., N]."""
    with jax.enable_x64(True):
        place = jnp.arange(random.shape[-1], dtype=jnp.uint64)
        both = jnp.sort(random.astype(jnp.uint64) << np.uint64(32) | place)
        return (both & np.uint64(2**32 - 1)).astype(jnp.int32)


def _random(keys: Array, number: int) -> Array:
    """Returns u32[..., number]: random words drawn with each of the raw keys [..., 2]."""
    one, other = words(as_key(keys[..., None, :]), 0, np.arange(number))
    return one ^ other


def _gumbel(keys: Array, number: int) -> Array:
    share = (_random(keys, number) >> np.uint32(9)).astype(jnp.int32).astype(jnp.float32) * 2.0**-23
    return -jnp.log(-jnp.log(jnp.maximum(share, np.finfo(np.float32).tiny)))
