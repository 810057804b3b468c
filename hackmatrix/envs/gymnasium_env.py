"""The game as a Gymnasium environment: HackMatrix-v0."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction, ResetNeeded

from hackmatrix import game
from hackmatrix.envs import bounds
from hackmatrix.envs.drawing import pictures, text
from hackmatrix.envs.headless.view import Json, observation
from hackmatrix.envs.hosted import HostedGames, Turn, describe

RENDER_MODES = ["ansi", "rgb_array"]
RENDER_FPS = 4


def observation_space() -> spaces.Box:
    high = bounds.highest()
    return spaces.Box(np.zeros_like(high), high, dtype=np.float32)


def action_space() -> spaces.Discrete:
    return spaces.Discrete(game.ACTIONS)


def checked(actions: Any) -> np.ndarray:
    """Returns the actions as an array; raises InvalidAction for one outside the action space."""
    given = np.asarray(actions)
    if given.dtype.kind not in "iu" or not np.isin(given, np.arange(game.ACTIONS)).all():
        raise InvalidAction(f"actions must be integers from 0 to {game.ACTIONS - 1}, not {actions}")
    return given


def seen_on(games: HostedGames, number: int) -> Json:
    """Returns what the player sees of a board, as the headless protocol shows it."""
    board = describe(games.board(number))
    return observation(board, board["owned"], ())


def information(turn: Turn) -> dict[str, Any]:
    """Returns the `info` that goes with the observations; leaves [E, ...]."""
    outcome = turn.outcome
    return {
        "action_mask": turn.mask,
        "stage": turn.stage,
        "score": turn.score,
        "hp": turn.hp,
        "stage_completed": outcome.stage_completed,
        "won": outcome.won,
        "died": outcome.died,
        "invalid": outcome.invalid,
        "reward_parts": dict(outcome.parts),
    }


class HackMatrixEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One game. `action_masks` returns which actions are valid, and `invalid` selects what an
    invalid one does: "end", "cost" or "redraw" (hackmatrix.envs.invalid_actions).

    The first `reset` compiles the game (docs/interfaces.md says how long that takes), unless
    JAX_COMPILATION_CACHE_DIR names a folder where an earlier process saved the result.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": RENDER_FPS}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, invalid: str = "end") -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise ValueError(
                f"render_mode={render_mode!r} must be one of {', '.join(RENDER_MODES)}"
            )
        self.render_mode = render_mode
        self.observation_space = observation_space()
        self.action_space = action_space()
        self._games = HostedGames(1, invalid)
        self._turn: Turn | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None or self._turn is None:
            self._games.seed(0, self.np_random)
        self._turn = self._games.new_games()
        return self._told(self._turn)

    def step(self, action: np.int64 | int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._current().outcome.done[0]:
            raise ResetNeeded("this game is over: call reset() to begin the next one")
        if np.ndim(action):
            raise InvalidAction(f"the action must be one integer, not the array {action}")
        self._turn = self._games.play(checked([action]))
        seen, told = self._told(self._turn)
        outcome = self._turn.outcome
        return seen, float(outcome.reward[0]), bool(outcome.done[0]), False, told

    def action_masks(self) -> np.ndarray:
        """bool[28]: which actions are valid."""
        return np.array(self._current().mask[0])

    def render(self) -> Any:
        self._current()
        if self.render_mode == "ansi":
            return text.text(seen_on(self._games, 0))
        if self.render_mode == "rgb_array":
            return pictures.picture(seen_on(self._games, 0))
        gymnasium.logger.warn(
            'nothing is rendered without a render_mode, such as render_mode="ansi"'
        )
        return None

    def _current(self) -> Turn:
        if self._turn is None:
            raise ResetNeeded("there is no game yet: call reset() first")
        return self._turn

    def _told(self, turn: Turn) -> tuple[np.ndarray, dict[str, Any]]:
        def only(leaf: np.ndarray) -> Any:
            return leaf[0].item() if leaf.ndim == 1 else np.array(leaf[0])

        return np.array(turn.observation[0]), jax.tree.map(only, information(turn))
