"""The compiled game, which the tests of the game and of its environments compare with. A step takes
longest to compile, so both use the same program, which one of them finds in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from hackmatrix import game

Tree = Any  # states or outcomes of several boards, which are the first axis of arrays
Program = Callable[..., Tree]

BATCH = 512
SAMPLED = 4096  # boards of the program of a step, which also samples each golden case many times


def keys(seed: int, number: int = BATCH) -> np.ndarray:
    return np.asarray(jax.random.key_data(jax.random.split(jax.random.key(seed), number)))


def rows(tree: Tree, chosen: np.ndarray | int) -> Tree:
    return jax.tree.map(lambda leaf: leaf[chosen], tree)


def step_arguments(number: int) -> Tree:
    """Arguments for a step of this many boards; the states are only shapes and dtypes."""
    states = jax.eval_shape(game.reset_batch, keys(0, number))
    return keys(0, number), states, np.zeros(number, np.int32)


def reset() -> Program:
    return compiled(game.reset_batch, BATCH, keys(0))


def step() -> Program:
    """It runs often enough to be worth a little optimisation."""
    options = {"xla_backend_optimization_level": "1"}
    return compiled(game.step_batch, SAMPLED, *step_arguments(SAMPLED), options=options)


def compiled(
    function: Program, size: int, *given: Tree, options: dict[str, Any] | None = None
) -> Program:
    """Compiles a function of `size` boards for any number of them, a part at a time. It takes and
    returns NumPy arrays. The last part is filled up with the first boards.
    """
    program = jax.jit(function).lower(*given).compile(options)

    def run(*given: Tree) -> Tree:
        number = len(jax.tree.leaves(given)[0])
        parts = np.resize(np.arange(number), (-(-number // size), size))
        results = [jax.tree.map(np.asarray, program(*rows(given, part))) for part in parts]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:number], *results)

    return run
