"""The game itself, as the reference for its environments. All functions take any number of boards,
and are compiled by the first call.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from hackmatrix import game
from tests import compiled_game
from tests.compiled_game import BATCH, Program

_new_games, _step = functools.cache(compiled_game.reset), functools.cache(compiled_game.step)


def new_games(keys: np.ndarray) -> Any:
    """Returns a new game for each raw key [E, 2]."""
    return _new_games()(keys)


def step(keys: np.ndarray, states: Any, actions: np.ndarray) -> tuple[Any, Any]:
    """Returns states [E] and outcomes, for raw keys [E, 2]."""
    return _step()(keys, states, np.asarray(actions, np.int32))


def valid_actions(states: Any) -> np.ndarray:
    return _of_states(game.valid_actions)(states)


def observe(states: Any) -> np.ndarray:
    return _of_states(game.observe)(states)


@functools.cache
def _of_states(function: Any) -> Program:
    _, states, _ = compiled_game.step_arguments(BATCH)
    return compiled_game.compiled(jax.vmap(function), BATCH, states)


def chosen(mask: np.ndarray, new: Any, old: Any) -> Any:
    """Returns `new` on the boards of the mask, else `old`."""

    def choose(new: Any, old: Any) -> np.ndarray:
        return np.where(mask.reshape(-1, *[1] * (np.ndim(old) - 1)), new, old)

    return jax.tree.map(choose, new, old)
