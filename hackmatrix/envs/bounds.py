"""How large the numbers of an observation get."""

from __future__ import annotations

import numpy as np

from hackmatrix.game.observation import OBSERVATION_SIZE

_STAGE, _DATA_SIPHONS, _ATTACK = 5, 6, 7  # the only ones that pass 1
_MOST = (1 << 12) - 1  # data siphons, or attack, that a state holds


def highest() -> np.ndarray:
    """f32[1545]; the lowest are all 0."""
    high = np.ones(OBSERVATION_SIZE, np.float32)
    high[[_STAGE, _DATA_SIPHONS, _ATTACK]] = 8 / 7, _MOST / 10, (_MOST - 1) / 2
    return high
