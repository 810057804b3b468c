"""Batches of boards, and the compiled steps that take them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from boards import State
from jax.sharding import Mesh, PartitionSpec
from subject import AT_ONCE, Step, Tree, rows

from hackmatrix import game

BATCH = AT_ONCE
DEVICES = 8


def keys(seed: int, number: int = BATCH) -> jax.Array:
    return jax.random.split(jax.random.key(seed), number)


class Programs(NamedTuple):
    """What is compiled. Each returns arrays of the host."""

    reset: Callable[[jax.Array], Tree]  # new games
    step: Step  # a batch of boards on one device
    step_and_restart: Step  # a batch of boards spread over all devices


def compiled_programs() -> Programs:
    """Compiling a step takes most of a minute of one core, so all are compiled side by side."""
    mesh = Mesh(np.array(jax.devices()[:DEVICES]), ("boards",))
    split = PartitionSpec("boards")
    spread = jax.shard_map(
        game.step_batch_and_restart, mesh=mesh, in_specs=split, out_specs=split, check_vma=False
    )

    new, actions = jax.eval_shape(game.reset_batch, keys(0)), np.zeros(BATCH, np.int32)

    def compiled(function: Any, *given: Any) -> Callable[..., Tree]:
        options: dict[str, str | bool] = {}
        if function is game.step_batch:  # which is played a million times
            options["xla_backend_optimization_level"] = "3"
        run = jax.jit(function).lower(*given).compile(options)
        return lambda *given: jax.tree.map(np.asarray, run(*given))

    with ThreadPoolExecutor() as pool:
        reset = pool.submit(compiled, game.reset_batch, keys(0))
        steps = [
            pool.submit(compiled, step, keys(0), new, actions) for step in (game.step_batch, spread)
        ]
        return Programs(*(each.result() for each in (reset, *steps)))


def load(states: list[State]) -> Tree:
    """The states, repeated to fill a batch."""
    boards = [jax.tree.map(np.asarray, game.scenario.load(state)) for state in states]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *boards)
    return rows(stacked, np.resize(np.arange(len(states)), BATCH))
