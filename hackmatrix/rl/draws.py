"""Random keys, named by what they are for.

A draw depends on (seed, purpose, update, step, number of the environment) and on nothing else, so
it is the same on any mesh.
"""

from __future__ import annotations

from enum import IntEnum

import jax

Array = jax.Array


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
    """Threefry whatever the default is: other generators draw differently under vmap."""
    if isinstance(seed, int):
        seed &= 0xFFFFFFFF  # as JAX takes those of up to 64 bits
    return jax.random.key(seed, impl="threefry2x32")


def key_for(key: Array, purpose: Purpose, *numbers: Array | int) -> Array:
    """The key of one purpose, and of an update, a step, an epoch, ... of it."""
    for number in (purpose, *numbers):
        key = jax.random.fold_in(key, number)
    return key


def key_of_each(key: Array, numbers: Array) -> Array:
    """Keys [E], one for each number."""
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, numbers)
