"""No observation is greater than the bounds that the environments declare."""

from __future__ import annotations

import numpy as np

from hackmatrix import game
from hackmatrix.envs import bounds

EMPTY = [".", {"c": 0, "e": 0, "s": 0, "m": 0}]
GREATEST = [
    ["D", 31, 15, {"c": 0, "e": 0, "s": 1, "m": 0}],
    [".", {"c": 7, "e": 0, "s": 0, "m": 0}],
    [".", {"c": 0, "e": 7, "s": 0, "m": 0}],
]


def test_a_board_with_the_greatest_of_everything_reaches_the_bounds_and_no_more() -> None:
    board = {
        "player": [5, 5, 3, 99, 99, 0, 0, 0], "stage": 9, "turn": 0, "exit": [0, 0],
        "cells": [EMPTY] * 33 + GREATEST, "enemies": [[1, 5, 3, 3, 1, 1, 1, 1]],
        "transmissions": [[5, 4, 63, 0, 1, 1]], "owned": [*range(23)], "show": 1, "calm": 1,
        "step": 1, "atk_uses": 0, "pending": 0, "interval": 12, "next_task": 12,
    }  # fmt: skip
    state = game.scenario.load(board)
    # A board cannot be set up with as many, but play can reach them.
    most = state.player.replace(data_siphons=np.int32(4095), attack=np.int32(4095))
    seen, high = np.asarray(game.observe(state.replace(player=most))), bounds.highest()
    assert (seen <= high + 1e-6).all()
    np.testing.assert_allclose(seen[high > 1].max(), high.max())
    player, last_cells = slice(0, 33), slice(-3 * 42, None)
    np.testing.assert_allclose(seen[player], high[player])
    reached = np.isclose(seen[last_cells], high[last_cells]).reshape(3, 42)
    assert reached[0, [10, 35]].all()
    assert reached[1, 37]
    assert reached[2, 38]
