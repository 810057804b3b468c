"""Random keys, named by what they are for.

A draw depends on (seed, purpose, update, step, number of the environment) and on nothing else, so
it is the same on any mesh.

Keys and noise are those of `jax.random`, which on a CPU computes them in loops that take several
times as long as the same arithmetic written out, here and in `hackmatrix.game.randomness`. Its
permutations are sorted twice, with each number beside its key; these are words, sorted once.
"""

from __future__ import annotations

import functools
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
        key = key_of_each(key, number)
    return key


def key_of_each(keys: Array, numbers: Array | int) -> Array:
    """Keys [...], one for each number [...] with one key, or with the key [...] in its place: what
    `jax.random.fold_in` makes of both.
    """
    folded = words(as_key(keys), 0, numbers)
    return jax.random.wrap_key_data(jnp.stack(folded, axis=-1), impl=_GENERATOR)


def gumbel(keys: Array, number: int) -> Array:
    """f32[..., number]: so many draws with each of the keys [...], as of `jax.random.gumbel`."""
    # On a CPU, what looks for the greatest of them would take their logarithms one by one.
    return outlined(functools.partial(_gumbel, number=number))(jax.random.key_data(keys))


def permutation(keys: Array, number: int) -> Array:
    """i32[..., number]: the numbers below it in a random order, with each of the keys [...].

    They are sorted by the random bits that fit in front of them in a word: 17 where there are
    32,768. Those that draw the same bits stay in their order.
    """
    own = (number - 1).bit_length()
    random = words(as_key(jax.random.key_data(keys)[..., None, :]), 0, np.arange(number))[0]
    sorted_words = jnp.sort(random >> own << own | np.arange(number, dtype=np.uint32))
    return (sorted_words & np.uint32(2**own - 1)).astype(jnp.int32)


def _gumbel(keys: Array, number: int) -> Array:
    one, other = words(as_key(keys[..., None, :]), 0, np.arange(number))
    share = ((one ^ other) >> np.uint32(9)).astype(jnp.int32).astype(jnp.float32) * 2.0**-23
    return -jnp.log(-jnp.log(jnp.maximum(share, np.finfo(np.float32).tiny)))
