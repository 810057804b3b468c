"""Spawning transmissions (section 10 of the rules), one at a time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix.game import cells, few, slots
from hackmatrix.game.cells import CELLS, EVERY, CellSet
from hackmatrix.game.outline import outlined
from hackmatrix.game.randomness import Key, pick_cell, uniform_below, words
from hackmatrix.game.state import State, Transmissions

Array = jax.Array

# The chance that one of 100 uniform draws among the 36 cells hits one of n cells, in 2^-32.
_HIT_CHANCE = np.array(
    [min(2**32 - 1, round((1 - (1 - n / CELLS) ** 100) * 2**32)) for n in range(CELLS + 1)],
    dtype=np.uint32,
)


@outlined
def line_of_fire(player: CellSet, screens: CellSet) -> CellSet:
    """The cells in the player's row and column with no screen strictly between."""
    fire = cells.EMPTY
    for direction in cells.DIRECTIONS:
        ray = player
        for _ in range(cells.SIZE - 1):
            ray = direction(ray)
            fire = fire | ray
            ray = ray - screens
    return fire


def append(
    transmissions: Transmissions, cell: Array, kind: Array, from_siphon: bool, from_schedule: bool
) -> Transmissions:
    """Adds a transmission with 1 turn at the end of the list; a full list drops it."""
    number = slots.count(transmissions.present)
    fits = (cell >= 0) & (number < slots.CAPACITY)
    new = jnp.where(fits, slots.ONE << (number & 31).astype(jnp.uint32), 0)
    return Transmissions(
        present=transmissions.present | new,
        row=slots.write(transmissions.row, new, cell // cells.SIZE),
        column=slots.write(transmissions.column, new, cell % cells.SIZE),
        kind=slots.write(transmissions.kind, new, kind),
        turns=slots.write(transmissions.turns, new, 1),
        from_siphon=transmissions.from_siphon | (new if from_siphon else 0),
        from_schedule=transmissions.from_schedule | (new if from_schedule else 0),
    )


class Spawning(struct.PyTreeNode):
    """What spawning reads and changes, and how many are still to come."""

    key: Key
    player: CellSet
    enemies: CellSet
    blocks: CellSet
    transmissions: Transmissions
    occupied: CellSet  # by transmissions
    left: Array


def spawn(
    state: State,
    key: Key,
    purpose: int,
    number: Array,
    from_siphon: bool = False,
    from_schedule: bool = False,
) -> State:
    """Spawns this many transmissions on each board."""
    work = Spawning(
        key=key,
        player=cells.at(state.player.cell),
        enemies=slots.cells_of(state.enemies),
        blocks=state.board.blocks,
        transmissions=state.transmissions,
        occupied=slots.cells_of(state.transmissions),
        left=number,
    )

    def is_needed(work: Spawning) -> Array:
        return work.left > 0

    def one(work: Spawning) -> Spawning:
        return spawn_one(work, purpose, from_siphon, from_schedule)

    work = few.apply(
        is_needed,
        lambda work: few.repeat(is_needed, one, work),
        work,
        max(128, number.shape[0] // 32),
    )
    return state.replace(transmissions=work.transmissions)


def spawn_one(work: Spawning, purpose: int, from_siphon: bool, from_schedule: bool) -> Spawning:
    luck, kind = words(work.key, purpose, 2 * work.left)
    where_to, second_luck = words(work.key, purpose, 2 * work.left + 1)
    cell = choose_cell(work, luck, second_luck, where_to)
    return work.replace(
        transmissions=append(
            work.transmissions, cell, uniform_below(kind, 4), from_siphon, from_schedule
        ),
        occupied=work.occupied | cells.at(jnp.maximum(cell, 0)).only_if(cell >= 0),
        left=work.left - 1,
    )


@outlined
def choose_cell(work: Spawning, luck: Array, second_luck: Array, where_to: Array) -> Array:
    """Where a transmission appears; -1 for nowhere."""
    candidates = EVERY - work.player - work.enemies - work.occupied - work.blocks
    preferred = candidates - line_of_fire(work.player, work.enemies | work.blocks)
    chance = jnp.asarray(_HIT_CHANCE)
    is_preferred = luck < chance[preferred.count()]
    is_anywhere = second_luck < chance[candidates.count()]
    cell = pick_cell(where_to, cells.where(is_preferred, preferred, candidates))
    return jnp.where(is_preferred | is_anywhere, cell, -1)
