"""A step of the game, and the observation of boards, as one kernel each.

The usual rules are traced for a block of boards: every value of a state is one word per board, so
the values of a block fill whole registers, and nothing goes to memory between one rule and the
next. A rare rule runs while any board of the block (on a GPU: of the warp) needs it.
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
# u32[E, 47] as from `observation.encode`, and u32[E] as from `valid.valid_word`.
Seen = tuple[Array, Array]


@dataclass(frozen=True)
class Kernels:
    """The kernels for a platform: "tpu", "gpu" or "cpu". On a CPU they are interpreted, which is
    slow and serves to test that they are exact.
    """

    platform: str

    def __post_init__(self) -> None:
        if self.platform == "gpu":
            # A program from the compile cache is not traced, but needs Mosaic's settings to load.
            importlib.import_module("hackmatrix.game.warpgroups")

    def step_batch_and_restart(
        self, keys: Array, states: State, actions: Array
    ) -> tuple[State, Outcome, Seen]:
        """Does as `play.step_batch_and_restart`, and also returns what is seen afterwards."""
        history, boards = states.history, states.replace(history=None)
        count, flag = (jax.ShapeDtypeStruct(actions.shape, kind) for kind in (jnp.int32, bool))
        outcome = Outcome.alike(count, flag, reward.PARTS)  # in whole units
        with tracing.program_for(self.platform):
            inputs = boards, history.depth, as_key(keys), actions.astype(jnp.int32), history.newest
            outputs = boards, outcome, (flag, flag, flag), history.newest, _seen_of(actions)
            in_place = len(jax.tree.leaves(boards))
            boards, outcome, changes, newest, (words, valid) = blocks.run(
                step, inputs, outputs, self.platform, in_place
            )
            after = boards.replace(history=history.after(newest, *changes))
            return after, reward.in_floats(outcome), (jnp.moveaxis(words, 0, -1), valid)

    def look(self, states: State) -> Seen:
        """Returns what is seen of the boards."""
        held = states.history.depth
        inputs = states.replace(history=None), held
        words, valid = blocks.run(look, inputs, _seen_of(held), self.platform)
        return jnp.moveaxis(words, 0, -1), valid


def step(inputs: Any, outputs: Any) -> None:
    """Takes a step on a block of boards; the rule of a kernel."""
    state, held, key, action, newest = inputs
    *results, seen = outputs
    nothing = jnp.zeros_like(action) != 0
    past: Any = Newest(newest, held, nothing, nothing, nothing)
    state, outcome = blocks.for_this_platform(_play)(key, state.replace(history=past), action)
    past = state.history
    changes = past.is_taken, past.is_pushed, past.is_forgotten
    blocks.store(results, [state.replace(history=None), outcome, changes, past.words])
    _store_seen(seen, state)


def _play(key: Any, state: State, action: Array) -> tuple[State, Outcome]:
    return play.play(key, state, action, restart=True)


def look(inputs: Any, outputs: Any) -> None:
    """Observes a block of boards; the rule of a kernel."""
    state, held = inputs
    _store_seen(outputs, state.replace(history=Newest((), held, held, held, held)))


def _store_seen(refs: Any, state: State) -> None:
    words, valid = refs
    seen_of_cell = blocks.for_this_platform(observation.cell_word)

    def see(cell: Array, nothing: None) -> None:
        words[cell] = seen_of_cell(state, cell)

    jax.lax.fori_loop(0, CELLS, see, None)
    seen_of_player = blocks.for_this_platform(observation.player_words)
    for number, word in enumerate(seen_of_player(state), start=CELLS):
        words[number] = word
    valid[...] = blocks.for_this_platform(valid_word)(state)


def _seen_of(boards: Any) -> Any:
    """Returns the shapes of what is seen of these boards, with the words on the first axis."""
    words = jax.ShapeDtypeStruct((observation.WORDS, *boards.shape), jnp.uint32)
    return words, jax.ShapeDtypeStruct(boards.shape, jnp.uint32)
