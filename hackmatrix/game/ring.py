"""The snapshots that are kept, as words: a ring of the newest ones.

A kernel does not carry the whole ring. It is given the newest snapshot, since in a step at most one
is taken off, and tells which one is to be put on.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.game import tracing

Array = jax.Array


class History(struct.PyTreeNode):
    """A ring of the newest snapshots: packed words [depth, words], the next place to write, how
    many are held.
    """

    snapshots: Array
    head: Array
    depth: Array

    @property
    def newest(self) -> Array:
        """u32[words, ...]: the newest snapshot."""
        depth = self.snapshots.shape[-2]
        return jnp.moveaxis(_row(self.snapshots, (self.head - 1) % depth), -1, 0)

    def pushed(self, snapshot: Any, active: Array) -> History:
        """The ring with this snapshot (words first) on the active boards. The oldest one is
        forgotten where there is no place left.
        """
        depth = self.snapshots.shape[-2]
        place = jnp.where(active, self.head, depth)
        words = jnp.moveaxis(jnp.asarray(snapshot), 0, -1)
        return History(
            _with_row(self.snapshots, place, words),
            jnp.where(active, (self.head + 1) % depth, self.head),
            jnp.minimum(self.depth + active, depth),
        )

    def taken(self, active: Array) -> History:
        """Without the newest snapshot on the active boards."""
        depth = self.snapshots.shape[-2]
        return History(
            self.snapshots,
            jnp.where(active, (self.head - 1) % depth, self.head),
            self.depth - active,
        )

    def after(self, newest: Array, taken: Array, pushed: Array, forgotten: Array) -> History:
        """What a kernel has made of it, whose `newest` words are u32[words, ...]."""
        history = self.taken(taken).pushed(newest, pushed)
        return history.replace(
            head=jnp.where(forgotten, 0, history.head), depth=jnp.where(forgotten, 0, history.depth)
        )

    def forgotten(self) -> History:
        """Without snapshots. The words themselves may stay."""
        return self.replace(head=jnp.zeros_like(self.head), depth=jnp.zeros_like(self.depth))

    def with_places(self, depth: int) -> History:
        """The same snapshots in a ring that has more places."""
        places = self.snapshots.shape[-2]
        oldest_first = ((self.head - self.depth)[..., None] + jnp.arange(places)) % places
        held = jnp.take_along_axis(self.snapshots, oldest_first[..., None], axis=-2)
        more = jnp.zeros((*held.shape[:-2], depth - places, held.shape[-1]), held.dtype)
        return History(jnp.concatenate([held, more], axis=-2), self.depth % depth, self.depth)


class Newest(struct.PyTreeNode):
    """What a kernel knows of a history: its newest snapshot, how many are held, and what has become
    of them. After one that was put on, `words` are that one, and `depth` may be one too many.
    """

    words: tuple[Array, ...]
    depth: Array
    is_taken: Array
    is_pushed: Array
    is_forgotten: Array

    @property
    def newest(self) -> tuple[Array, ...]:
        return self.words

    def pushed(self, snapshot: Any, active: Array) -> Newest:
        words = [jnp.where(active, *both) for both in zip(snapshot, self.words, strict=True)]
        return self.replace(
            words=tuple(words), depth=self.depth + active, is_pushed=self.is_pushed | active
        )

    def taken(self, active: Array) -> Newest:
        return self.replace(depth=self.depth - active, is_taken=self.is_taken | active)

    def forgotten(self) -> Newest:
        nothing, everywhere = jnp.zeros_like(self.depth), jnp.ones_like(self.is_forgotten)
        return self.replace(depth=nothing, is_forgotten=everywhere)


# A GPU reads and writes single rows of a ring; elsewhere it is sooner done with all of them.


def _row(rings: Array, place: Array) -> Array:
    """[..., words]: of each ring [depth, words] the row in this place."""
    if tracing.on_gpu():
        return _taken(rings, place)
    chosen = jnp.arange(rings.shape[-2]) == place[..., None]
    return jnp.where(chosen[..., None], rings, 0).sum(-2, dtype=jnp.uint32)


def _with_row(rings: Array, place: Array, words: Array) -> Array:
    """The rings with these words [..., words] in this place; one beyond the last leaves a ring as
    it is.
    """
    if tracing.on_gpu():
        return _put(rings, place, words)
    written = (jnp.arange(rings.shape[-2]) == place[..., None])[..., None]
    return jnp.where(written, words[..., None, :], rings)


@partial(jnp.vectorize, signature="(d,w),()->(w)")
def _taken(ring: Array, place: Array) -> Array:
    return ring.at[place].get(mode="promise_in_bounds")


@partial(jnp.vectorize, signature="(d,w),(),(w)->(d,w)")
def _put(ring: Array, place: Array, words: Array) -> Array:
    return ring.at[place].set(words, mode="drop")
