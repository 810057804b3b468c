"""Batches of boards, and the compiled steps that take them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import numpy as np
from boards import State
from jax.sharding import Mesh, PartitionSpec
from subject import BATCH as SAMPLED
from subject import Step, Tree, rows

from hackmatrix import game

BATCH = 512
DEVICES = 2


def keys(seed: int, number: int = BATCH) -> np.ndarray:
    return np.asarray(jax.random.key_data(jax.random.split(jax.random.key(seed), number)))


class Programs(NamedTuple):
    """The compiled functions. Each takes and returns NumPy arrays, for any number of boards."""

    reset: Callable[[np.ndarray], Tree]  # new games
    step: Step  # on one device
    step_and_restart: Step  # spread over devices


def compiled_programs() -> Programs:
    """Compiling a step takes half a minute of one core, so all are compiled in parallel."""
    split = PartitionSpec("boards")
    spread = jax.shard_map(
        game.step_batch_and_restart,
        mesh=Mesh(np.array(jax.devices()[:DEVICES]), ("boards",)),
        in_specs=split,
        out_specs=split,
        check_vma=False,
    )
    with ThreadPoolExecutor() as pool:
        reset = pool.submit(compiled, game.reset_batch, keys(0))
        step = pool.submit(compiled, game.step_batch, *step_arguments(SAMPLED))
        on_devices = pool.submit(compiled, spread, *step_arguments(BATCH))
    return Programs(
        in_parts(reset.result(), BATCH),
        in_parts(step.result(), SAMPLED),
        in_parts(on_devices.result(), BATCH),
    )


def step_arguments(number: int) -> Tree:
    """Arguments for a step of this many boards; the states are only shapes and dtypes."""
    states = jax.eval_shape(game.reset_batch, keys(0, number))
    return keys(0, number), states, np.zeros(number, np.int32)


def compiled(function: Callable[..., Tree], *given: Tree) -> Callable[..., Tree]:
    """Compiles a function that runs often enough to be worth a little optimisation."""
    run = jax.jit(function).lower(*given).compile({"xla_backend_optimization_level": "1"})
    return lambda *given: jax.tree.map(np.asarray, run(*given))


def in_parts(program: Callable[..., Tree], size: int) -> Callable[..., Tree]:
    """Makes a program of `size` boards take any number of them, a part at a time. The last part is
    filled up with the first boards.
    """

    def run(*given: Tree) -> Tree:
        number = len(jax.tree.leaves(given)[0])
        parts = np.resize(np.arange(number), (-(-number // size), size))
        results = [program(*rows(given, part)) for part in parts]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:number], *results)

    return run


def load(states: list[State]) -> Tree:
    """The states, repeated to fill a batch."""
    boards = [jax.tree.map(np.asarray, game.scenario.load(state)) for state in states]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *boards)
    return rows(stacked, np.resize(np.arange(len(states)), BATCH))
