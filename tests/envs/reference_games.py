"""The game itself, to compare its faces with.

Boards are stepped BATCH at a time, with rows filled up to as many: it takes long to compile a step,
and other tests have compiled this one already.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from hackmatrix import game

BATCH = 512

_step = jax.jit(game.step_batch)
_new_games = jax.jit(game.reset_batch)
_valid_actions = jax.jit(jax.vmap(game.valid_actions))
_observe = jax.jit(jax.vmap(game.observe))


def step(keys: np.ndarray, states: Any, actions: np.ndarray) -> tuple[Any, Any]:
    """States [E] and outcomes, for raw keys [E, 2]."""
    full = filled_up((states, np.asarray(actions, np.int32)))
    return _rows(_step(_typed(keys), *full), len(keys))


def new_games(keys: np.ndarray) -> Any:
    """One a key, however many there are."""
    parts = [keys[start : start + BATCH] for start in range(0, len(keys), BATCH)]
    begun = [_rows(_new_games(_typed(part)), len(part)) for part in parts]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *begun)


def valid_actions(states: Any, boards: int) -> np.ndarray:
    return _rows(_valid_actions(filled_up(states)), boards)


def observe(states: Any, boards: int) -> np.ndarray:
    return _rows(_observe(filled_up(states)), boards)


def filled_up(rows: Any) -> Any:
    """A batch of these rows over and over."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[np.arange(BATCH) % len(leaf)], rows)


def chosen(mask: np.ndarray, new: Any, old: Any) -> Any:
    """`new` on the boards of the mask, else `old`."""

    def choose(new: Any, old: Any) -> np.ndarray:
        return np.where(mask.reshape(-1, *[1] * (np.ndim(old) - 1)), new, old)

    return jax.tree.map(choose, new, old)


def _typed(keys: np.ndarray) -> jax.Array:
    return jax.random.wrap_key_data(filled_up(keys))


def _rows(batch: Any, number: int) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:number], batch)
