"""Random words by their purpose: Threefry-2x32 of (key, purpose, index).

No draw depends on another one or on how many were made, so a draw that a board does not need costs
nothing and changes nothing. All draws fuse with the arithmetic around them, whereas `jax.random`
compiles to loops.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix.game import several, slots
from hackmatrix.game.cells import CellSet
from hackmatrix.game.tracing import in_kernel

Array = jax.Array
Tree = TypeVar("Tree")
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


class Purpose(IntEnum):
    """What a draw is for: the first word of its counter."""

    WARP = 0
    POLY = 1
    ENEMY_ORDER = 2
    SCHEDULED_SPAWN = 3
    SIPHON_SPAWN = 4
    STAGE_SPAWN = 5
    NEW_GAME = 6
    EXIT = 7
    BLOCK_COUNT = 8
    BLOCK_CELLS = 9
    BLOCK_CONTENT = 10
    BLOCK_PROGRAMS = 11
    RESOURCES = 12
    HIDDEN_CONTENT = 13
    HIDDEN_KIND = 14
    HIDDEN_PLACE = 15
    HIDDEN_SCHEDULE = 16


class Key(struct.PyTreeNode):
    """The two words of a Threefry key; any batch shape."""

    high: Array
    low: Array


def as_key(key: Array) -> Key:
    """Returns the words of a raw or typed JAX key, or of an array of them."""
    data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    if data.shape[-1:] != (2,) or not jnp.issubdtype(data.dtype, jnp.integer):
        raise ValueError(
            f"keys must be threefry keys of 2 words, got {data.dtype} of shape {data.shape}"
        )
    return Key(data[..., 0].astype(jnp.uint32), data[..., 1].astype(jnp.uint32))


def words(key: Key, purpose: Array | int, index: Array | np.ndarray | int) -> tuple[Array, Array]:
    """Returns two random words: Threefry-2x32 with 20 rounds, for the counter (purpose, index)."""
    schedule = (key.high, key.low, key.high ^ key.low ^ _PARITY)
    x = key.high + jnp.asarray(purpose, jnp.uint32)
    y = key.low + jnp.asarray(index).astype(jnp.uint32)
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(rotation) | y >> np.uint32(32 - rotation)) ^ x
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def with_each_drawn(
    rule: Callable[[several.Number, tuple[Array, Array], Tree], Tree],
    value: Tree,
    key: Key,
    purpose: int,
    number: int,
    start: Array | int = 0,
) -> Tree:
    """Folds a rule over the draws of `number` consecutive indices, and returns the last value. The
    rule makes the next value from the draw's place (0 for index `start`), its words and the value.
    """

    def draw(place: several.Number) -> tuple[Array, Array]:
        return words(key, purpose, start + place)

    if in_kernel():
        return jax.lax.fori_loop(
            0, number, lambda place, value: rule(place, draw(place), value), value
        )
    boards = max(key.low, jnp.asarray(start), key=jnp.ndim)
    for place, random in enumerate(several.each(number, draw, boards)):
        value = rule(place, random, value)
    return value


def word(key: Key, purpose: int, index: Array | int = 0) -> Array:
    return words(key, purpose, index)[0]


def uniform_below(random: Array, number: Array | int) -> Array:
    """Returns an integer from 0 to number - 1 (number at most 256), uniform to within 2^-24."""
    return (
        (random >> np.uint32(8)) * jnp.asarray(number).astype(jnp.uint32) >> np.uint32(24)
    ).astype(jnp.int32)


def pick_slot(random: Array, among: Array) -> Array:
    """Returns a uniformly random slot of the set, as a set; empty for an empty set."""
    index = slots.nth(among, uniform_below(random, slots.count(among)))
    return jnp.where(among != 0, slots.ONE << (index & np.uint32(31)), 0)


def pick_cell(random: Array, among: CellSet) -> Array:
    """Returns the number of a uniformly random cell of the set, which must not be empty."""
    in_low = slots.count(among.low)
    choice = uniform_below(random, in_low + slots.count(among.high))
    high = choice >= in_low
    index = slots.nth(
        jnp.where(high, among.high, among.low), jnp.where(high, choice - in_low, choice)
    )
    return index.astype(jnp.int32) + jnp.where(high, 18, 0)
