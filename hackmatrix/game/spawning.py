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


class Spawning(struct.PyTreeNode):
    """What spawning reads and changes."""

    key: Key
    player: Array  # its cell
    enemies: slots.Places
    blocks: CellSet
    transmissions: Transmissions
    numbers: dict[Purpose, Array]


class Progress(struct.PyTreeNode):
    """What one transmission changes for the next. `left` counts those still to come; on boards that
    are done it is 0 or less.
    """

    transmissions: Transmissions
    free: CellSet
    left: Array


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
        numbers=numbers,
    )
    after = few.apply_once(_total(numbers) > 0, _spawn_all, work, width).transmissions
    turns = digits.write(before.turns, after.present & ~before.present, FIRST_TURNS)
    return state.replace(transmissions=after.replace(turns=turns))


def _total(numbers: dict[Purpose, Array]) -> Array:
    return sum(numbers.values(), start=jnp.int32(0))


def _spawn_all(work: Spawning) -> Spawning:
    """Spawns the transmissions of these boards, one at a time."""
    free, fire = free_and_fire(work)
    first = Progress(work.transmissions, free, _total(work.numbers))
    last = few.repeat(
        lambda now: now.left > 0, lambda now: _spawn_one(work, fire, now), first, few.EVERY_BOARD
    )
    return work.replace(transmissions=last.transmissions)


def _spawn_one(work: Spawning, fire: CellSet, now: Progress) -> Progress:
    """Spawns one transmission on each board that has some left."""
    # The purposes in their order; `number` counts each one's down to 1, `later` those of the rest.
    purpose, number, later = jnp.int32(0), jnp.int32(0), jnp.int32(0)
    for each, count in sorted(work.numbers.items(), reverse=True):
        is_due = now.left > later
        purpose = jnp.where(is_due, each, purpose)
        number = jnp.where(is_due, now.left - later, number)
        later = later + count
    for_preferred, kind = words(work.key, purpose, 2 * number)
    choice, for_any = words(work.key, purpose, 2 * number + 1)
    cell = choose_cell(now.free - fire, now.free, for_preferred, for_any, choice)
    # The list has no holes (`enemy_turn` fills them). This overflows to 0 where it is full.
    next_slot = now.transmissions.present + slots.ONE
    new = jnp.where((number > 0) & (cell != NOWHERE), next_slot, 0)
    return Progress(
        transmissions=append(now.transmissions, new, cell, uniform_below(kind, 4), purpose),
        free=now.free - cells.at(cell).only_if(new != 0),
        left=now.left - 1,
    )


def append(
    transmissions: Transmissions, new: Array, cell: Array, kind: Array, purpose: Array
) -> Transmissions:
    """Adds a transmission in the slot `new`, or none if that is empty. Its turns are not set."""
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


@outlined
def free_and_fire(work: Spawning) -> tuple[CellSet, CellSet]:
    """Returns the cells in which a transmission can appear, and the player's line of fire."""
    player, screens = cells.at(work.player), slots.cells_of(work.enemies) | work.blocks
    free = EVERY - player - screens - slots.cells_of(work.transmissions)
    return free, line_of_fire(player, screens)


@outlined
def choose_cell(
    preferred: CellSet, free: CellSet, for_preferred: Array, for_any: Array, choice: Array
) -> Array:
    """Chooses the cell in which a transmission appears, or NOWHERE, by three random words."""
    is_preferred = for_preferred < several.look_up(_HIT_CHANCE, preferred.count())
    is_anywhere = for_any < several.look_up(_HIT_CHANCE, free.count())
    cell = pick_cell(choice, cells.where(is_preferred, preferred, free))
    return jnp.where(is_preferred | is_anywhere, cell, NOWHERE)
