"""Spawning transmissions (section 10 of the rules), one at a time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hackmatrix.game import cells, digits, few, several, slots
from hackmatrix.game.cells import CELLS, EVERY, CellSet, column_of, row_of
from hackmatrix.game.outline import outlined
from hackmatrix.game.randomness import Key, Purpose, pick_cell, uniform_below, words
from hackmatrix.game.state import State, Transmissions

Array = jax.Array

NOWHERE = -1
FIRST_TURNS = 1

# The chance that any of 100 uniform draws of the 36 cells hits one of n, in units of 2^-32.
_HIT_CHANCE = np.array(
    [min(2**32 - 1, round((1 - (1 - n / CELLS) ** 100) * 2**32)) for n in range(CELLS + 1)],
    dtype=np.uint32,
)


@outlined
def line_of_fire(player: CellSet, screens: CellSet) -> CellSet:
    """Returns the cells in the player's row and column with no screen strictly between."""
    fire = cells.EMPTY
    for direction in cells.DIRECTIONS:
        ray = player
        for _ in range(cells.SIZE - 1):
            ray = direction(ray)
            fire = fire | ray
            ray = ray - screens
    return fire


def append(transmissions: Transmissions, cell: Array, kind: Array, purpose: Array) -> Transmissions:
    """Adds a transmission at the end of the list, but does not set its turns. A full list stays as
    it is, and so does any list if the cell is NOWHERE.
    """
    number = slots.count(transmissions.present)
    fits = (cell != NOWHERE) & (number < slots.CAPACITY)
    new = jnp.where(fits, slots.ONE << (number & 31).astype(jnp.uint32), 0)
    return Transmissions(
        present=transmissions.present | new,
        row=digits.write(transmissions.row, new, row_of(cell)),
        column=digits.write(transmissions.column, new, column_of(cell)),
        kind=digits.write(transmissions.kind, new, kind),
        turns=transmissions.turns,
        from_siphon=transmissions.from_siphon | jnp.where(purpose == Purpose.SIPHON_SPAWN, new, 0),
        from_schedule=transmissions.from_schedule
        | jnp.where(purpose == Purpose.SCHEDULED_SPAWN, new, 0),
    )


class Spawning(struct.PyTreeNode):
    """What spawning reads and changes. `left` counts the transmissions still to come."""

    key: Key
    player: Array  # its cell
    enemies: slots.Places
    blocks: CellSet
    transmissions: Transmissions
    left: dict[Purpose, Array]


def spawn(
    state: State, key: Key, numbers: dict[Purpose, Array], width: few.Width = few.SPAWNING
) -> State:
    """Spawns these numbers of transmissions on each board, purpose by purpose in their order,
    `width` boards at a time.
    """
    enemies, before = state.enemies, state.transmissions
    work = Spawning(
        key=key,
        player=state.player.cell,
        enemies=slots.Places(enemies.present, enemies.row, enemies.column),
        blocks=state.board.blocks,
        transmissions=before.replace(turns=()),
        left=numbers,
    )
    work = few.repeat(_is_spawning, spawn_one, work, width)
    after = work.transmissions
    turns = digits.write(before.turns, after.present & ~before.present, FIRST_TURNS)
    return state.replace(transmissions=after.replace(turns=turns))


def _is_spawning(work: Spawning) -> Array:
    return sum(work.left.values(), start=jnp.int32(0)) > 0


def spawn_one(work: Spawning) -> Spawning:
    """Spawns one transmission on each board that has some left."""
    purpose, number = jnp.int32(0), jnp.int32(0)
    for each, left in sorted(work.left.items(), reverse=True):
        purpose, number = jnp.where(left > 0, each, purpose), jnp.where(left > 0, left, number)
    for_preferred, kind = words(work.key, purpose, 2 * number)
    choice, for_any = words(work.key, purpose, 2 * number + 1)
    cell = jnp.where(number > 0, choose_cell(work, for_preferred, for_any, choice), NOWHERE)
    return work.replace(
        transmissions=append(work.transmissions, cell, uniform_below(kind, 4), purpose),
        left={each: left - (purpose == each) for each, left in work.left.items()},
    )


@outlined
def choose_cell(work: Spawning, for_preferred: Array, for_any: Array, choice: Array) -> Array:
    """Chooses the cell in which a transmission appears, or NOWHERE, by three random words."""
    player, screens = cells.at(work.player), slots.cells_of(work.enemies) | work.blocks
    candidates = EVERY - player - screens - slots.cells_of(work.transmissions)
    preferred = candidates - line_of_fire(player, screens)
    is_preferred = for_preferred < several.look_up(_HIT_CHANCE, preferred.count())
    is_anywhere = for_any < several.look_up(_HIT_CHANCE, candidates.count())
    cell = pick_cell(choice, cells.where(is_preferred, preferred, candidates))
    return jnp.where(is_preferred | is_anywhere, cell, NOWHERE)
