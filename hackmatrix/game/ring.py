"""A history of snapshots: a ring buffer of the newest ones, packed into words.

A kernel does not carry the ring. A step takes off at most one snapshot, so the kernel is given the
newest one, and returns the one to push.
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
    """A ring of the newest snapshots: packed words u32[..., places, words], the next place to
    write, and how many snapshots are held.
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
        """Returns the history with this snapshot (words first) pushed on the active boards. Where
        there is no place left it replaces the oldest one.
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
        """Returns the history without the newest snapshot on the active boards."""
        depth = self.snapshots.shape[-2]
        return History(
            self.snapshots,
            jnp.where(active, (self.head - 1) % depth, self.head),
            self.depth - active,
        )

    def after(self, newest: Array, taken: Array, pushed: Array, forgotten: Array) -> History:
        """Returns the history with the changes that a kernel made to its `Newest`: on which boards
        it called `taken`, `pushed` and `forgotten`. `newest` are its words, u32[words, ...].
        """
        history = self.taken(taken).pushed(newest, pushed)
        return history.replace(
            head=jnp.where(forgotten, 0, history.head), depth=jnp.where(forgotten, 0, history.depth)
        )

    def forgotten(self) -> History:
        """Returns the history without snapshots. Their words stay, but no longer count."""
        return self.replace(head=jnp.zeros_like(self.head), depth=jnp.zeros_like(self.depth))

    def with_places(self, depth: int) -> History:
        """Returns the same snapshots in a ring of more places."""
        places = self.snapshots.shape[-2]
        oldest_first = ((self.head - self.depth)[..., None] + jnp.arange(places)) % places
        held = jnp.take_along_axis(self.snapshots, oldest_first[..., None], axis=-2)
        more = jnp.zeros((*held.shape[:-2], depth - places, held.shape[-1]), held.dtype)
        return History(jnp.concatenate([held, more], axis=-2), self.depth % depth, self.depth)


class Newest(struct.PyTreeNode):
    """What a kernel knows of a history: its newest snapshot, how many are held, and what was done
    to it. After a push `words` is the pushed snapshot, and `depth` may be too great by one.
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


# A GPU reads and writes single rows of a ring. Elsewhere a masked pass over all rows is faster.


def _row(rings: Array, place: Array) -> Array:
    """Returns the row in this place of each ring: [..., words] from [..., places, words]."""
    if tracing.on_gpu():
        return _gather_row(rings, place)
    chosen = jnp.arange(rings.shape[-2]) == place[..., None]
    return jnp.where(chosen[..., None], rings, 0).sum(-2, dtype=jnp.uint32)


def _with_row(rings: Array, place: Array, words: Array) -> Array:
    """Returns the rings with these words [..., words] in this place. A place beyond the last leaves
    a ring as it is.
    """
    if tracing.on_gpu():
        return _scatter_row(rings, place, words)
    written = (jnp.arange(rings.shape[-2]) == place[..., None])[..., None]
    return jnp.where(written, words[..., None, :], rings)


@partial(jnp.vectorize, signature="(d,w),()->(w)")
def _gather_row(ring: Array, place: Array) -> Array:
    return ring.at[place].get(mode="promise_in_bounds")


@partial(jnp.vectorize, signature="(d,w),(),(w)->(d,w)")
def _scatter_row(ring: Array, place: Array, words: Array) -> Array:
    return ring.at[place].set(words, mode="drop")
