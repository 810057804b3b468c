"""The train state, and the report of a chunk of updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.rl.rollout import Players

Array = jax.Array
NEVER = -1


class TrainState(struct.PyTreeNode):
    """Everything that the future of a run depends on."""

    learner: Any  # replicated; as hackmatrix.rl.algorithm.Algorithm.init describes it
    players: Players  # sharded over the devices


class Report(struct.PyTreeNode):
    """The metrics of a chunk, and the update that broke it."""

    values: Array  # f32[names]: the metrics, over the whole chunk
    # i32: the first update with a vital metric that is not finite; else, if the learner after the
    # chunk is not finite, the last update; else NEVER.
    broken_at: Array
    names: tuple[str, ...] = struct.field(pytree_node=False)  # of the values

    @classmethod
    def of(cls, metrics: Mapping[str, Array], broken_at: Array) -> Report:
        """Stacks the metrics: one array is compiled and fetched sooner than dozens of scalars."""
        names = tuple(sorted(metrics))
        return cls(jnp.stack([metrics[name] for name in names]), broken_at, names)

    @property
    def metrics(self) -> dict[str, Array]:
        return dict(zip(self.names, self.values, strict=True))
