"""Restores the last states of runs, on a disk or in a bucket, and compares them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from hackmatrix.parallel import mesh
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.checkpoints.checkpoints import Checkpoints, Layout
from hackmatrix.train.config.saved import from_json
from hackmatrix.train.program import Program
from hackmatrix.train.runs.protocol import Place


def state_of(run: Place, step: int) -> TrainState:
    """Restores the newest state, which must be of this step, on the devices of this process."""
    config = from_json((run / "config.json").read())
    shapes = Program(config, mesh.over()).shapes
    restored = Checkpoints(run / "checkpoints", keep=9).restore_newest(Layout(shapes))
    assert restored is not None
    assert restored.step == step
    return restored.state


def assert_same_run(these: TrainState, those: TrainState) -> None:
    """Asserts that boards, and so actions, are equal, and parameters are up to rounding."""

    def same(one: Any, other: Any) -> None:
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)

    jax.tree.map(np.testing.assert_array_equal, these.players, those.players)
    jax.tree.map(same, these.learner.params, those.learner.params)
