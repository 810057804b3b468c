"""A step of the game, and what is seen of its boards, as one kernel each.

The same rules as everywhere, traced for a block of boards: every value of a state is a word for
each board, so the values of a block fill whole registers, and nothing goes to memory between one
rule and the next. A rare rule runs while any board of the block needs it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix.game import blocks, observation, play, reward, tracing
from hackmatrix.game.cells import CELLS
from hackmatrix.game.randomness import as_key
from hackmatrix.game.ring import Newest
from hackmatrix.game.state import Outcome, State
from hackmatrix.game.valid import valid_word

Array = jax.Array
# u32[E, 47], as `observation.encode`, and u32[E], as `valid.valid_word`.
Seen = tuple[Array, Array]


@dataclass(frozen=True)
class Kernels:
    """The kernels for devices of a platform: "tpu", "gpu", or "cpu", where they are interpreted,
    which shows that they are exact and is slow.
    """

    platform: str

    def __post_init__(self) -> None:
        if self.platform == "gpu":
            # A program that is found needs what this sets, though nothing is traced for it.
            importlib.import_module("hackmatrix.game.warpgroups")

    def step_batch_and_restart(
        self, keys: Array, states: State, actions: Array
    ) -> tuple[State, Outcome, Seen]:
        """As `play.step_batch_and_restart`, and what is seen of the boards after it."""
        with tracing.program_for(self.platform):
            return self._stepped(keys, states, actions)

    def _stepped(self, keys: Array, states: State, actions: Array) -> tuple[State, Outcome, Seen]:
        history, boards = states.history, states.replace(history=None)
        inputs = boards, history.depth, as_key(keys), actions.astype(jnp.int32), history.newest
        count, flag = (jax.ShapeDtypeStruct(actions.shape, kind) for kind in (jnp.int32, bool))
        outcome = _outcome_of(count, flag)
        outputs = boards, outcome, (flag, flag, flag), history.newest, _seen_of(actions)
        in_place = len(jax.tree.leaves(boards))
        boards, outcome, changes, newest, (words, valid) = blocks.run(
            step, inputs, outputs, self.platform, in_place
        )
        after = boards.replace(history=history.after(newest, *changes))
        return after, reward.in_floats(outcome), (jnp.moveaxis(words, 0, -1), valid)

    def look(self, states: State) -> Seen:
        """What is seen of boards."""
        held = states.history.depth
        inputs = states.replace(history=None), held
        words, valid = blocks.run(look, inputs, _seen_of(held), self.platform)
        return jnp.moveaxis(words, 0, -1), valid


def step(inputs: Any, outputs: Any) -> None:
    """The rule of a step."""
    state, held, key, action, newest = inputs
    *results, seen = outputs
    nothing = jnp.zeros_like(action) != 0
    past: Any = Newest(newest, held, nothing, nothing, nothing)
    state, outcome = blocks.as_taken_here(_play)(key, state.replace(history=past), action)
    past = state.history
    changes = past.is_taken, past.is_pushed, past.is_forgotten
    blocks.store(results, [state.replace(history=None), outcome, changes, past.words])
    _store_seen(seen, state)


def _play(key: Any, state: State, action: Array) -> tuple[State, Outcome]:
    return play.play(key, state, action, restart=True)


def look(inputs: Any, outputs: Any) -> None:
    """The rule of looking at boards."""
    state, held = inputs
    _store_seen(outputs, state.replace(history=Newest((), held, held, held, held)))


def _store_seen(refs: Any, state: State) -> None:
    words, valid = refs
    seen_of_cell = blocks.as_taken_here(observation.cell_word)

    def see(cell: Array, nothing: None) -> None:
        words[cell] = seen_of_cell(state, cell)

    jax.lax.fori_loop(0, CELLS, see, None)
    seen_of_player = blocks.as_taken_here(observation.player_words)
    for number, word in enumerate(seen_of_player(state), start=CELLS):
        words[number] = word
    valid[...] = blocks.as_taken_here(valid_word)(state)


def _outcome_of(count: Any, flag: Any) -> Outcome:
    """An outcome in units of reward."""
    return Outcome(
        reward=count,
        parts=dict.fromkeys(reward.PARTS, count),
        done=flag,
        invalid=flag,
        stage_completed=flag,
        won=flag,
        died=flag,
    )


def _seen_of(boards: Any) -> Any:
    """What is seen of so many boards, the words in front."""
    words = jax.ShapeDtypeStruct((observation.WORDS, *boards.shape), jnp.uint32)
    return words, jax.ShapeDtypeStruct(boards.shape, jnp.uint32)
