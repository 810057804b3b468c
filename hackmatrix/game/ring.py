"""The snapshots that are kept, as words: a ring of the newest ones.

A kernel does not carry the whole ring. It is given the newest snapshot, since in a step at most one
is taken off, and tells which one is to be put on.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

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
        chosen = jnp.arange(depth) == ((self.head - 1) % depth)[..., None]
        words = jnp.where(chosen[..., None], self.snapshots, 0).sum(-2, dtype=jnp.uint32)
        return jnp.moveaxis(words, -1, 0)

    def pushed(self, snapshot: Any, active: Array) -> History:
        """The ring with this snapshot (words first) on the active boards. The oldest one is
        forgotten where there is no place left.
        """
        depth = self.snapshots.shape[-2]
        place = jnp.where(active, self.head, depth)
        written = (jnp.arange(depth) == place[..., None])[..., None]
        words = jnp.moveaxis(jnp.asarray(snapshot), 0, -1)
        return History(
            jnp.where(written, words[..., None, :], self.snapshots),
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
