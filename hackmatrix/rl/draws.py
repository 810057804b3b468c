"""Random keys, named by what they are for.

A draw depends on (seed, purpose, update, step, number of the environment) and on nothing else, so
it is the same on any mesh.

All draws are those of `jax.random`. On a CPU it computes them in loops that take several times as
long as the same arithmetic written out, here and in `hackmatrix.game.randomness`; and it sorts
pairs of a number and its key, which here lie in one word.
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
# Whatever the default is: other generators draw differently under vmap.
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
        seed &= 0xFFFFFFFF  # as JAX takes those of up to 64 bits
    return jax.random.key(seed, impl=_GENERATOR)


def key_for(key: Array, purpose: Purpose, *numbers: Array | int) -> Array:
    """The key of one purpose, and of an update, a step, an epoch, ... of it."""
    for number in (purpose, *numbers):
        key = fold_in(key, number)
    return key


def fold_in(keys: Array, numbers: Array | int) -> Array:
    """Keys [...], one for each number [...] with one key, or with the key [...] in its place: what
    `jax.random.fold_in` makes of both.
    """
    folded = words(as_key(keys), 0, jnp.uint32(numbers))
    return jax.random.wrap_key_data(jnp.stack(folded, axis=-1), impl=_GENERATOR)


def gumbel(keys: Array, number: int) -> Array:
    """f32[..., number]: so many draws with each of the keys [...], as of `jax.random.gumbel`."""
    # On a CPU, what looks for the greatest of them would take their logarithms one by one.
    return outlined(functools.partial(_gumbel, number=number))(jax.random.key_data(keys))


def permutation(keys: Array, number: int) -> Array:
    """i32[..., number]: the numbers below it in a random order, with each of the keys [...], as of
    `jax.random.permutation`: sorted by random words, more than once where two might be the same.
    """
    order = jnp.broadcast_to(jnp.arange(number), (*keys.shape, number))
    for _ in range(math.ceil(3 * math.log(number) / math.log(2**32 - 1))):
        keys, own = fold_in(keys, 0), fold_in(keys, 1)
        places = _sorted_places(_random(jax.random.key_data(own), number))
        order = jnp.take_along_axis(order, places, -1)
    return order


def _sorted_places(random: Array) -> Array:
    """i32[..., N]: the places of words u32[..., N] in ascending order, equal ones in their own."""
    with jax.enable_x64(True):
        place = jnp.arange(random.shape[-1], dtype=jnp.uint64)
        both = jnp.sort(random.astype(jnp.uint64) << np.uint64(32) | place)
        return (both & np.uint64(2**32 - 1)).astype(jnp.int32)


def _random(keys: Array, number: int) -> Array:
    """u32[..., number]: so many random words with each of the raw keys [..., 2]."""
    one, other = words(as_key(keys[..., None, :]), 0, np.arange(number))
    return one ^ other


def _gumbel(keys: Array, number: int) -> Array:
    share = (_random(keys, number) >> np.uint32(9)).astype(jnp.int32).astype(jnp.float32) * 2.0**-23
    return -jnp.log(-jnp.log(jnp.maximum(share, np.finfo(np.float32).tiny)))
