"""A hosted game, with what is remembered of it."""

from __future__ import annotations

from collections.abc import Iterable

import jax
import numpy as np

from hackmatrix import game
from hackmatrix.envs.headless.memory import Memory
from hackmatrix.envs.headless.view import Json, observation
from hackmatrix.envs.hosted import HostedGames, Turn, describe


class RememberedGame:
    """The game on the only board of `games`, from the turn that was just taken or looked at.
    `owned` are the programs in order of acquisition, if that is known.

    `observation` f32[1545] and `mask` bool[28] are the inputs of a network, `board` is the scenario
    without its history, and `is_over` is whether the game has ever ended.
    """

    def __init__(self, games: HostedGames, turn: Turn, owned: Iterable[int] | None = None) -> None:
        self._games = games
        self._look(turn)
        self._memory = Memory(self.board, self.board["owned"] if owned is None else owned)
        self.is_over = False

    def play(self, action: int) -> game.Outcome:
        """Takes the action, and returns its outcome without the batch axis."""
        turn = self._games.play(np.array([action]))
        self._look(turn)
        outcome: game.Outcome = jax.tree.map(lambda leaf: leaf[0], turn.outcome)
        if not outcome.invalid:
            self._memory.follow(action, self.board)
        self.is_over |= bool(outcome.done)
        return outcome

    def shown(self) -> Json:
        """Returns what a player sees, as the protocol shows it."""
        return observation(self.board, self._memory.owned, self._memory.hints())

    def _look(self, turn: Turn) -> None:
        self.observation, self.mask = np.asarray(turn.observation[0]), np.asarray(turn.mask[0])
        self.state = self._games.board(0)
        self.board = describe(self.state)
