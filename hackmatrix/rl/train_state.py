"""The train state, and the report of a chunk of updates."""

from __future__ import annotations

from typing import Any

import jax
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

    metrics: dict[str, Array]  # over the whole chunk
    # i32: the first update with a vital metric that is not finite; else, if the learner after the
    # chunk is not finite, the last update; else NEVER.
    broken_at: Array
