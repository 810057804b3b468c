"""Batches of boards, and the compiled steps that take them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import numpy as np
from boards import State
from jax.sharding import Mesh, PartitionSpec

from hackmatrix import game
from tests import compiled_game
from tests.compiled_game import BATCH, Program, Tree, rows, step_arguments

DEVICES = 2


class Programs(NamedTuple):
    """The compiled functions, for any number of boards."""

    reset: Program  # new games
    step: Program  # on one device
    step_and_restart: Program  # spread over devices


def compiled_programs() -> Programs:
    """Compiles in parallel, as a step takes many seconds."""
    split = PartitionSpec("boards")
    spread = jax.shard_map(
        game.step_batch_and_restart,
        mesh=Mesh(np.array(jax.devices()[:DEVICES]), ("boards",)),
        in_specs=split,
        out_specs=split,
        check_vma=False,
    )
    with ThreadPoolExecutor() as pool:
        reset, step = pool.submit(compiled_game.reset), pool.submit(compiled_game.step)
        on_devices = pool.submit(compiled_game.compiled, spread, BATCH, *step_arguments(BATCH))
    return Programs(reset.result(), step.result(), on_devices.result())


def load(states: list[State]) -> Tree:
    """The states, repeated to fill a batch."""
    boards = [jax.tree.map(np.asarray, game.scenario.load(state)) for state in states]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *boards)
    return rows(stacked, np.resize(np.arange(len(states)), BATCH))
