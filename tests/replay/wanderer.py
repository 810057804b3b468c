"""A player without a policy, who plays the same game always in the same way."""

from __future__ import annotations

from typing import Any

import numpy as np

from hackmatrix.envs.headless import Decision
from hackmatrix.replay.record import Episode, record

MOST_STEPS = 60


class Wanderer:
    """Draws valid actions in game `number`; a higher action is likelier than a lower one."""

    def __init__(self, number: int) -> None:
        self._number = number

    def decide(self, observation: np.ndarray, mask: np.ndarray, step: int, _: Any) -> Decision:
        weights = mask * np.arange(1, mask.size + 1)
        shares = weights / weights.sum()
        action = np.random.default_rng([self._number, step]).choice(mask.size, p=shares)
        return Decision(int(action), shares.round(4).tolist(), step / 4)

    def step_key(self, step: int | None) -> tuple[np.ndarray, int]:
        return np.array([1, self._number], np.uint32), 0 if step is None else step + 1


def wander(title: str, number: int) -> Episode:
    wanderer = Wanderer(number)
    return record(title, wanderer.decide, wanderer.step_key, MOST_STEPS)
