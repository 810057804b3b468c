"""The greatest value of each number of an observation."""

from __future__ import annotations

import numpy as np

from hackmatrix.game import bits
from hackmatrix.game.bits import greatest
from hackmatrix.game.cells import CELLS
from hackmatrix.game.features import FEATURES
from hackmatrix.game.observation import OBSERVATION_SIZE

# The only ones that pass 1: of the player, then of a cell. They are bounded by what a state holds.
_STAGE, _DATA_SIPHONS, _ATTACK = 5, 6, 7
_POINTS, _SPAWN, _CREDITS, _ENERGY = 10, 35, 37, 38


def highest() -> np.ndarray:
    """f32[1545]; the lowest are all 0."""
    high = np.ones(OBSERVATION_SIZE, np.float32)
    high[_STAGE] = 8 / 7
    high[_DATA_SIPHONS] = greatest(bits.DATA_SIPHONS) / 10
    high[_ATTACK] = (greatest(bits.ATTACK) - 1) / 2
    cells = high[-CELLS * len(FEATURES) :].reshape(CELLS, len(FEATURES))
    cells[:, _POINTS] = greatest(bits.LABEL) / 9
    cells[:, _SPAWN] = greatest(bits.SPAWN) / 9
    cells[:, [_CREDITS, _ENERGY]] = greatest(bits.AMOUNT) / 3
    return high
