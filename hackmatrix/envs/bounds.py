"""The greatest value of each number of an observation."""

from __future__ import annotations

import numpy as np

from hackmatrix.game import bits
from hackmatrix.game.bits import greatest
from hackmatrix.game.cells import CELLS
from hackmatrix.game.features import FEATURES
from hackmatrix.game.observation import OBSERVATION_SIZE

# The only numbers above 1, of the player and of a cell; their bounds are what a state can hold.
_STAGE, _DATA_SIPHONS, _ATTACK = 5, 6, 7
_OF_A_CELL = {"points": bits.LABEL, "spawn": bits.SPAWN, "amount": bits.AMOUNT}


def highest() -> np.ndarray:
    """Returns the upper bounds, f32[1545]; the lower bounds are all 0."""
    high = np.ones(OBSERVATION_SIZE, np.float32)
    high[_STAGE] = 8 / 7
    high[_DATA_SIPHONS] = greatest(bits.DATA_SIPHONS) / 10
    high[_ATTACK] = (greatest(bits.ATTACK) - 1) / 2
    cells = high[-CELLS * len(FEATURES) :].reshape(CELLS, len(FEATURES))
    for number, feature in enumerate(FEATURES):
        if feature.field in _OF_A_CELL:
            cells[:, number] = greatest(_OF_A_CELL[feature.field]) / feature.unit
    return high
