"""The types of the functions and conditions that the table of programs refers to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game.cells import CellSet
from hackmatrix.game.randomness import Key
from hackmatrix.game.state import State

Array = jax.Array

# Runs the program on the active boards, which have paid for it, and returns the states and the
# number of kills that count. Removed entries leave holes in the lists.
Change = Callable[[State, Key, Array], tuple[State, Array]]
NO_KILLS: Any = np.int32(0)


class Blow(NamedTuple):
    """What a program does to the enemies in some slots, present or not."""

    hit: Array  # these take damage, and survivors are stunned
    damage: Array | int
    removed: Any = np.uint32(0)  # these are removed at once, and take no damage


class Strike(NamedTuple):
    """The function of a program that only damages enemies. One pass serves all such programs."""

    blow: Callable[[State], Blow]


class Steps(NamedTuple):
    """The slots, present or not, of the enemies that go one step; two directions are a diagonal."""

    up: Array
    down: Array
    left: Array
    right: Array


class Shove(NamedTuple):
    """The function of a program that only moves enemies. One pass serves all such programs. In it
    only the first of several enemies with the same target goes there.
    """

    steps: Callable[[State], Steps]


class Situation(NamedTuple):
    """What conditions depend on: a state, and the cells of its enemies and transmissions."""

    state: State
    enemies: CellSet
    transmissions: CellSet


# Whether a program that is owned and affordable is usable.
Condition = Callable[[Situation], Array]


def always(now: Situation) -> Array:
    return jnp.ones_like(now.state.show)


def is_any_enemy(now: Situation) -> Array:
    return now.state.enemies.present != 0
