"""Batches of boards, and the compiled steps that take them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from boards import State
from jax.sharding import Mesh, PartitionSpec
from subject import rows

from hackmatrix import game

Tree = Any
Step = Callable[[jax.Array, Tree, np.ndarray], tuple[Tree, Tree]]

BATCH = 512
ALONE = 16  # boards that are stepped each on its own
DEVICES = 8


def keys(seed: int, number: int = BATCH) -> jax.Array:
    return jax.random.split(jax.random.key(seed), number)


class Programs(NamedTuple):
    """The compiled steps. Each returns arrays of the host."""

    step: Step  # a batch of boards on one device
    step_alone: Step  # one board after the other
    step_and_restart: Step  # a batch of boards spread over all devices


def compiled_programs() -> Programs:
    """Compiling one takes most of a minute of one core, so they are compiled side by side."""
    mesh = Mesh(np.array(jax.devices()[:DEVICES]), ("boards",))
    split = PartitionSpec("boards")
    spread = jax.shard_map(
        game.step_batch_and_restart, mesh=mesh, in_specs=split, out_specs=split, check_vma=False
    )

    def alone(*boards: Any) -> Any:
        return jax.lax.map(lambda board: game.step(*board), boards)

    sizes: dict[Any, int] = {game.step_batch: BATCH, alone: ALONE, spread: BATCH}

    def compiled(step: Any, number: int) -> Step:
        states = jax.eval_shape(game.reset_batch, keys(0, number))
        actions = np.zeros(number, np.int32)
        run = jax.jit(step).lower(keys(0, number), states, actions).compile()
        return lambda *given: jax.tree.map(np.asarray, run(*given))

    with ThreadPoolExecutor() as pool:
        return Programs(*pool.map(compiled, sizes.keys(), sizes.values()))


def load(states: list[State]) -> Tree:
    """The states, repeated to fill a batch."""
    boards = [jax.tree.map(np.asarray, game.scenario.load(state)) for state in states]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *boards)
    return rows(stacked, np.resize(np.arange(len(states)), BATCH))
