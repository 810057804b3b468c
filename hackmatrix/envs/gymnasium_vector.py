"""Many games as one Gymnasium environment, all stepped by one call on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from hackmatrix.envs.drawing import pictures
from hackmatrix.envs.gymnasium_env import (
    RENDER_FPS,
    action_space,
    checked,
    information,
    observation_space,
    seen_on,
)
from hackmatrix.envs.hosted import HostedGames, Turn


class HackMatrixVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """A batch of games. The step after the end of a game begins the next one, whatever the action.

    Seeded with s, game i is the one that HackMatrixEnv plays when it is seeded with s + i,
    with the same choice of `invalid`.
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": RENDER_FPS,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        render_mode: str | None = None,
        invalid: str = "end",
        max_episode_steps: int | None = None,
    ) -> None:
        """Truncates games after `max_episode_steps`; None, or -1 as in Gymnasium, never does."""
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode={render_mode!r} must be rgb_array")
        if num_envs < 1:
            raise ValueError(f"num_envs={num_envs} must be at least 1")
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = observation_space()
        self.single_action_space = action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._games = HostedGames(num_envs, invalid)
        self._turn: Turn | None = None
        self._limit = np.inf if max_episode_steps in (None, -1) else max_episode_steps
        if self._limit < 1:
            raise ValueError(f"max_episode_steps={max_episode_steps} must be at least 1")
        self._steps = np.zeros(num_envs, int)
        self._are_over = np.zeros(num_envs, bool)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Resets all games, or those where options["reset_mask"], bool[E], is True."""
        some = self._to_begin(options or {})
        seed = int(seed) if isinstance(seed, np.integer) else seed
        super().reset(seed=seed if isinstance(seed, int) else None)
        self._seed(seed, some)
        if self._turn is None or some.all():
            self._turn = self._games.new_games()
        else:
            self._turn = self._games.new_games_on(some, self._turn)
        self._steps[some], self._are_over[some] = 0, False
        return np.array(self._turn.observation), _told(self._turn)

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self._current()
        if np.shape(actions) != (self.num_envs,):
            raise InvalidAction(f"expected {self.num_envs} actions, one per game, got {actions}")
        self._turn = self._games.play(checked(actions), self._are_over)
        self._steps = np.where(self._are_over, 0, self._steps + 1)
        outcome = self._turn.outcome
        cut_off = self._steps >= self._limit
        self._are_over = np.asarray(outcome.done) | cut_off
        return (
            np.array(self._turn.observation),
            np.array(outcome.reward, np.float64),
            np.array(outcome.done),
            cut_off,
            _told(self._turn),
        )

    def action_masks(self) -> np.ndarray:
        """bool[E, 28]: which actions are valid."""
        return np.array(self._current().mask)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Returns a picture of each board."""
        self._current()
        if self.render_mode is None:
            gymnasium.logger.warn('nothing is rendered without render_mode="rgb_array"')
            return None
        return tuple(
            pictures.picture(seen_on(self._games, number)) for number in range(self.num_envs)
        )

    def _to_begin(self, options: dict[str, Any]) -> np.ndarray:
        """bool[E]: which games to reset."""
        everywhere = np.ones(self.num_envs, bool)
        some = np.asarray(options.get("reset_mask", everywhere))
        if some.dtype != bool or some.shape != everywhere.shape or not some.any():
            raise ValueError(
                f"reset_mask must be bool[{self.num_envs}], True for at least one game"
            )
        if self._turn is None and not some.all():
            raise ValueError("the first reset begins all games: omit reset_mask")
        return some

    def _seed(self, seed: int | Sequence[int | None] | None, some: np.ndarray) -> None:
        """Seeds some of the games. At the first reset, a game without a seed draws one."""
        seeds: Sequence[int | None]
        if isinstance(seed, int):
            seeds = range(seed, seed + self.num_envs)
        else:
            seeds = [None] * self.num_envs if seed is None else seed
        if len(seeds) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} seeds, one per game, got {len(seeds)}")
        for number in np.flatnonzero(some).tolist():
            each = seeds[number]
            if each is None and self._turn is None:
                each = int(self.np_random.integers(1 << 31))
            if each is not None:
                self._games.seed(number, seeding.np_random(int(each))[0])

    def _current(self) -> Turn:
        if self._turn is None:
            raise ResetNeeded("there are no games yet: call reset() first")
        return self._turn


def _told(turn: Turn) -> dict[str, Any]:
    return _with_presence(jax.tree.map(np.array, information(turn)), len(turn.mask))


def _with_presence(told: dict[str, Any], games: int) -> dict[str, Any]:
    """Adds the mask that Gymnasium expects beside each value: which games have it (here all)."""
    marked = {}
    for name, value in told.items():
        marked[name] = _with_presence(value, games) if isinstance(value, dict) else value
        marked[f"_{name}"] = np.ones(games, bool)
    return marked
