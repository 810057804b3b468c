"""A game that is hosted, and what is remembered of it."""

from __future__ import annotations

from collections.abc import Iterable

import jax
import numpy as np

from hackmatrix import game
from hackmatrix.envs.headless.memory import Memory
from hackmatrix.envs.headless.view import Json, observation
from hackmatrix.envs.hosted import HostedGames, Turn, describe


class RememberedGame:
    """The game on the only board of `games`, from the turn that was just taken or looked at. The
    programs that are `owned` are in the order of acquisition, as far as that is known.

    `observation` f32[1545] and `mask` bool[28] are as the network sees them, `board` is the
    scenario without its history, and `is_over` says whether the game has ended at any time.
    """

    def __init__(self, games: HostedGames, turn: Turn, owned: Iterable[int] | None = None) -> None:
        self._games = games
        self._look(turn)
        self._memory = Memory(self.board, self.board["owned"] if owned is None else owned)
        self.is_over = False

    def play(self, action: int) -> game.Outcome:
        """Takes the action; gives the outcome of this one board."""
        turn = self._games.play(np.array([action]))
        self._look(turn)
        outcome: game.Outcome = jax.tree.map(lambda leaf: leaf[0], turn.outcome)
        if not outcome.invalid:
            self._memory.follow(action, self.board)
        self.is_over |= bool(outcome.done)
        return outcome

    def shown(self) -> Json:
        """What a player sees, as the protocol tells it."""
        return observation(self.board, self._memory.owned, self._memory.hints())

    def _look(self, turn: Turn) -> None:
        self.observation, self.mask = np.asarray(turn.observation[0]), np.asarray(turn.mask[0])
        self.state = self._games.board(0)
        self.board = describe(self.state)
