"""Games played from Python: boards that stay on the device, one compiled call a turn.

One board is a batch of one, so that single environments, vector environments and the headless
protocol share this code. A board is a hundred small arrays, and the result of a turn two dozen.
Each is packed into one array of words, as passing so many arrays would take longer than the turn.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix import game
from hackmatrix.compile_cache.programs import CachedJit
from hackmatrix.envs import invalid_actions
from hackmatrix.game import history, play, randomness, stages
from hackmatrix.game.randomness import Key
from hackmatrix.game.state import HISTORY_DEPTH

Array = jax.Array


class Turn(struct.PyTreeNode):
    """What [E] boards look like, and the outcome of the last turn (zeros in a new game)."""

    observation: Array  # f32[E, 1545]
    mask: Array  # bool[E, 28]
    stage: Array  # i32[E]
    score: Array  # i32[E]
    hp: Array  # i32[E]
    outcome: game.Outcome


class HostedGames:
    """A batch of games; `states` are their boards [E]. The n-th turn of a board draws from
    fold_in(its key, n), so a board depends on its own key and actions alone. `invalid` is one of
    invalid_actions.CHOICES.
    """

    def __init__(self, boards: int, invalid: str = "end") -> None:
        self._invalid = invalid_actions.checked(invalid)
        self._keys = np.zeros((boards, 2), np.uint32)
        self._turns = np.zeros(boards, np.uint32)
        self._words: Any = np.zeros((boards, _board_layout().size), np.uint32)

    @property
    def states(self) -> game.State:
        """The boards, as host arrays."""
        return _read(_board_layout(), np.asarray(self._words))

    def seed(self, board: int, generator: np.random.Generator) -> None:
        """Draws a new key for a board, and resets its count of turns to 0."""
        self._keys[board] = generator.integers(1 << 32, size=2, dtype=np.uint32)
        self._turns[board] = 0

    def draw_from(self, board: int, key: np.ndarray, turn: int) -> None:
        """Makes the next turn of a board draw from fold_in(key, turn), for a raw key u32[2]."""
        self._keys[board], self._turns[board] = key, turn

    def new_games(self) -> Turn:
        """Begins new games on all boards."""
        everywhere = np.ones(len(self._turns), bool)
        return self.play(np.zeros(len(self._turns), np.int32), everywhere)

    def new_games_on(self, some: np.ndarray, seen: Turn) -> Turn:
        """Begins new games on `some` of the boards, bool[E]. The others take no turn: what is
        returned of them is taken from `seen`. The outcome is all zeros.
        """
        words, turns = self._words, self._turns.copy()
        begun = self.play(np.zeros(len(some), np.int32), some)

        def chosen(new: Any, old: Any) -> np.ndarray:
            new = np.asarray(new)
            return np.where(some.reshape(-1, *[1] * (new.ndim - 1)), new, np.asarray(old))

        self._words, self._turns = chosen(self._words, words), chosen(self._turns, turns)
        turn = jax.tree.map(chosen, begun, seen)
        return turn.replace(outcome=jax.tree.map(np.zeros_like, turn.outcome))

    def play(self, actions: np.ndarray, restarts: np.ndarray | None = None) -> Turn:
        """Takes an action on each board, or begins a new game where `restarts`, bool[E], is True.
        Takes and returns NumPy arrays.
        """
        if restarts is None:
            restarts = np.zeros(len(self._turns), bool)
        turn = self._run(actions, restarts, self._invalid)
        self._turns += 1
        return turn

    def look(self) -> Turn:
        """Returns what the boards look like, without taking a turn."""
        words = self._words
        nothing = np.full(len(self._turns), play.NO_ACTION, np.int32)
        turn = self._run(nothing, np.zeros(len(self._turns), bool), "end")
        self._words = words
        return turn

    def board(self, number: int) -> game.State:
        """Returns one of the boards, as host arrays."""
        return _read(_board_layout(), np.asarray(self._words)[number])

    def put(self, number: int, board: game.State) -> None:
        """Replaces one of the boards."""
        alone = jax.tree.map(lambda leaf: np.asarray(leaf)[None], board)
        words = np.array(self._words)
        words[number] = _words(alone, np.concatenate)[0]
        self._words = words

    def __getstate__(self) -> dict[str, Any]:
        """Copies hold host arrays, as a new object does: another process finds the cached program
        by the kind of arrays in its first call.
        """
        return {**vars(self), "_words": np.asarray(self._words)}

    def _run(self, actions: np.ndarray, restarts: np.ndarray, invalid: str) -> Turn:
        actions = np.asarray(actions, np.int32)
        take_turn = _compiled_turn(invalid, len(self._turns))
        self._words, *told = take_turn(self._keys, self._turns, self._words, actions, restarts)
        host: list[Any] = [np.asarray(each) for each in told]
        observation, mask, words = host
        return Turn(observation, mask, *_read(_told_layout(invalid), words))


class _Layout(NamedTuple):
    """Where each leaf of a tree lies in its words, and its type and shape."""

    structure: Any
    leaves: list[tuple[slice, np.dtype[Any], tuple[int, ...]]]
    size: int


@functools.cache
def _board_layout() -> _Layout:
    """Returns the layout of a board: that of a new game, whose drawing need not be traced."""
    nothing = Key(*np.zeros((2, 1), np.uint32))
    return _layout(
        jax.eval_shape(lambda: stages.new_game(nothing, history.empty(HISTORY_DEPTH, nothing.low)))
    )


@functools.cache
def _told_layout(invalid: str) -> _Layout:
    """Returns the layout of the fields of a Turn other than observation and mask."""
    kinds = np.int32, np.float32, np.bool_
    leaves: list[Any] = [jax.ShapeDtypeStruct((1,), kind) for kind in kinds]
    number, amount, truth = leaves
    outcome = game.Outcome.alike(amount, truth, invalid_actions.parts(invalid))
    return _layout((number, number, number, outcome))


def _layout(tree: Any) -> _Layout:
    """Returns the layout of a tree of arrays [E, ...]."""
    leaves, structure = jax.tree.flatten(tree)
    ends = np.cumsum([math.prod(leaf.shape[1:]) for leaf in leaves]).tolist()
    places = itertools.starmap(slice, itertools.pairwise([0, *ends]))
    described = [
        (place, leaf.dtype, leaf.shape[1:]) for place, leaf in zip(places, leaves, strict=True)
    ]
    return _Layout(structure, described, ends[-1])


def _words(tree: Any, concatenate: Callable[..., Any]) -> Any:
    """Packs a tree of arrays [E, ...] into words u32[E, N], by NumPy's or JAX's concatenate."""
    leaves = [
        leaf.astype(np.uint32) if leaf.dtype == bool else leaf.view(np.uint32)
        for leaf in jax.tree.leaves(tree)
    ]
    return concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def _read(layout: _Layout, words: Any) -> Any:
    """Unpacks the tree of one board from words [N], or of a batch from words [E, N]."""
    read = []
    for place, kind, shape in layout.leaves:
        part = words[..., place]
        part = part != 0 if kind == np.bool_ else part.view(kind)
        read.append(part.reshape((*words.shape[:-1], *shape)))
    return jax.tree.unflatten(layout.structure, read)


@functools.cache
def _compiled_turn(invalid: str, boards: int) -> CachedJit:
    """Returns the compiled turn of so many boards, with this choice for invalid actions."""
    return CachedJit(jax.jit(partial(_turn, invalid=invalid)))


def _turn(
    keys: Array,
    turns: Array,
    words: Array,
    actions: Array,
    restarts: Array,
    *,
    invalid: str,
) -> tuple[Array, Array, Array, Array]:
    """Takes a turn. Returns the words of the boards after it, observations, masks, and the words of
    the other fields of a Turn.
    """
    key = keys_of_turns(keys, turns)
    actions = jnp.where(restarts, play.NO_ACTION, actions)
    after, outcome, in_turn = invalid_actions.take_action(
        invalid, _read(_board_layout(), words), key, actions
    )
    next_stage = outcome.stage_completed & ~outcome.won
    states = play.finish_step(after, key, in_turn, next_stage | restarts, restarts)
    outcome = jax.tree.map(lambda leaf: jnp.where(restarts, jnp.zeros_like(leaf), leaf), outcome)
    told = states.stage, states.player.score, states.player.hp, outcome
    assert _layout(told) == _told_layout(invalid)
    return (
        _words(states, jnp.concatenate),
        game.observe(states),
        game.valid_actions(states),
        _words(told, jnp.concatenate),
    )


def keys_of_turns(keys: Any, turns: Any) -> Key:
    """Returns fold_in(key, turn) for raw Threefry keys [E, 2] and turns [E], whatever the default
    generator of JAX is.
    """
    return Key(*randomness.words(randomness.as_key(keys), 0, turns))


def describe(board: game.State) -> dict[str, Any]:
    """Returns the scenario of a board, without its history."""
    return game.scenario.dump(board.replace(history=board.history.replace(depth=0)))
