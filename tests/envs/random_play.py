"""Random play: the observations, masks and boards of successive turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hackmatrix.envs.hosted import HostedGames, describe


@dataclass
class Turns:
    observation: np.ndarray  # f32[T, 1545]
    mask: np.ndarray  # bool[T, 28]
    boards: list[dict[str, Any]]  # scenarios


def turns(count: int) -> Turns:
    rng, games = np.random.default_rng(5), HostedGames(1)
    games.seed(0, rng)
    turn = games.new_games()
    observations, masks, boards = [], [], []
    for _ in range(count):
        observations.append(turn.observation[0])
        masks.append(turn.mask[0])
        boards.append(describe(games.board(0)))
        over = np.asarray(turn.outcome.done, bool)
        turn = games.play(np.array([rng.choice(np.flatnonzero(turn.mask[0]))]), over)
    return Turns(np.stack(observations), np.stack(masks), boards)
