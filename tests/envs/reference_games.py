"""The game itself, as the reference for its environments.

Boards are stepped in batches of BATCH, padded with repeated rows: it takes long to compile a step,
and other tests have compiled one for this size already.
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
    """Returns states [E] and outcomes, for raw keys [E, 2]."""
    full = padded((states, np.asarray(actions, np.int32)))
    return _rows(_step(_typed(keys), *full), len(keys))


def new_games(keys: np.ndarray) -> Any:
    """Returns a new game for each key, of which there may be any number."""
    parts = [keys[start : start + BATCH] for start in range(0, len(keys), BATCH)]
    begun = [_rows(_new_games(_typed(part)), len(part)) for part in parts]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *begun)


def valid_actions(states: Any, boards: int) -> np.ndarray:
    return _rows(_valid_actions(padded(states)), boards)


def observe(states: Any, boards: int) -> np.ndarray:
    return _rows(_observe(padded(states)), boards)


def padded(rows: Any) -> Any:
    """Returns a batch of BATCH that repeats these rows."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[np.arange(BATCH) % len(leaf)], rows)


def chosen(mask: np.ndarray, new: Any, old: Any) -> Any:
    """Returns `new` on the boards of the mask, else `old`."""

    def choose(new: Any, old: Any) -> np.ndarray:
        return np.where(mask.reshape(-1, *[1] * (np.ndim(old) - 1)), new, old)

    return jax.tree.map(choose, new, old)


def _typed(keys: np.ndarray) -> jax.Array:
    return jax.random.wrap_key_data(padded(keys))


def _rows(batch: Any, number: int) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:number], batch)
