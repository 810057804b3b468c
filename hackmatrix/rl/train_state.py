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

    learner: Any  # replicated; what Algorithm.init of hackmatrix.rl.algorithm describes
    players: Players  # split over the devices


class Report(struct.PyTreeNode):
    """The means of a chunk's metrics, and its first update one of whose vital metrics was not
    finite (NEVER if none).
    """

    metrics: dict[str, Array]
    broken_at: Array
