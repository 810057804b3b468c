"""Games played from Python: boards that stay on the device, one compiled call a turn.

One board is a batch of one, so that an environment alone, many at once, and the headless protocol
are the same program.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix import game
from hackmatrix.game import play
from hackmatrix.game.randomness import as_key

Array = jax.Array


class Turn(struct.PyTreeNode):
    """What [E] boards look like, and what led there (all zero where a game has just begun)."""

    observation: Array  # f32[E, 1545]
    mask: Array  # bool[E, 28]
    stage: Array  # i32[E]
    score: Array  # i32[E]
    hp: Array  # i32[E]
    outcome: game.Outcome


class HostedGames:
    """`states` are the boards [E]. The n-th turn of a board draws from fold_in(its key, n), so a
    board depends on its own key and actions alone.
    """

    def __init__(self, boards: int) -> None:
        self._keys = np.zeros((boards, 2), np.uint32)
        self._turns = np.zeros(boards, np.uint32)
        blank = jax.eval_shape(game.reset_batch, self._keys)
        self.states: game.State = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), blank)

    def seed(self, board: int, generator: np.random.Generator) -> None:
        """Gives a board a key of its own, and lets it count its turns from 0 again."""
        self._keys[board] = generator.integers(1 << 32, size=2, dtype=np.uint32)
        self._turns[board] = 0

    def draw_from(self, board: int, key: np.ndarray, turn: int) -> None:
        """The next turn of a board draws from fold_in(key, turn), for a raw key u32[2]."""
        self._keys[board], self._turns[board] = key, turn

    def new_games(self) -> Turn:
        """New games on all boards."""
        everywhere = np.ones(len(self._turns), bool)
        return self.play(np.zeros(len(self._turns), np.int32), everywhere)

    def play(self, actions: np.ndarray, restarts: np.ndarray | None = None) -> Turn:
        """Takes an action on each board, but starts a new game on some; arrays of NumPy."""
        if restarts is None:
            restarts = np.zeros(len(self._turns), bool)
        turn = self._run(actions, restarts)
        self._turns += 1
        return turn

    def look(self) -> Turn:
        """The boards as they are; takes no turn."""
        states = self.states
        nothing = np.full(len(self._turns), play.NO_ACTION, np.int32)
        turn = self._run(nothing, np.zeros(len(self._turns), bool))
        self.states = states
        return turn

    def board(self, number: int) -> game.State:
        """One of the boards, as host arrays."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[number], self.states)

    def put(self, number: int, board: game.State) -> None:
        """Replaces one of the boards."""

        def replaced(leaf: Any, new: Any) -> np.ndarray:
            leaf = np.array(leaf)
            leaf[number] = new
            return leaf

        self.states = jax.tree.map(replaced, self.states, board)

    def _run(self, actions: np.ndarray, restarts: np.ndarray) -> Turn:
        self.states, turn = _turn(
            self._keys, self._turns, self.states, np.asarray(actions, np.int32), restarts
        )
        return jax.tree.map(np.asarray, turn)


@jax.jit
def _turn(
    keys: Array, turns: Array, states: game.State, actions: Array, restarts: Array
) -> tuple[game.State, Turn]:
    key = as_key(jax.vmap(jax.random.fold_in)(keys, turns))
    actions = jnp.where(restarts, play.NO_ACTION, actions)
    after, outcome, in_turn = play.take_action(states, key, actions)
    next_stage = outcome.stage_completed & ~outcome.won
    states = play.go_on(after, key, in_turn, next_stage | restarts, restarts)
    outcome = jax.tree.map(lambda leaf: jnp.where(restarts, jnp.zeros_like(leaf), leaf), outcome)
    return states, Turn(
        observation=game.observe(states),
        mask=game.valid_actions(states),
        stage=states.stage,
        score=states.player.score,
        hp=states.player.hp,
        outcome=outcome,
    )


def describe(board: game.State) -> dict[str, Any]:
    """The scenario of a board, its history left out."""
    return game.scenario.dump(board.replace(history=board.history.replace(depth=0)))
