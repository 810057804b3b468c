"""Siphoning the cross around the player, and whether another place was better (sections 5 and 12
of the rules).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import cells, digits
from hackmatrix.game.cells import EMPTY, EVERY, SIZE, CellSet, column_of, on_board, row_of
from hackmatrix.game.digits import Digits
from hackmatrix.game.outline import outlined
from hackmatrix.game.programs import Program
from hackmatrix.game.state import Board, State

Array = jax.Array


def siphon(state: State, active: Array) -> State:
    """Siphons on the active boards."""
    board, player = state.board, state.player
    here = cells.at(player.cell).only_if(active)
    fresh = _fresh(player.cell, board.siphoned).only_if(active)
    blocks = fresh & board.blocks
    yields = fresh - board.blocks
    amounts = digits.masked(board.amount, yields)
    points = digits.total(board.label, fresh & board.data)
    return state.replace(
        player=player.replace(
            credits=player.credits + digits.total(amounts, ~board.energy),
            energy=player.energy + digits.total(amounts, board.energy),
            data_siphons=player.data_siphons - active,
            score=player.score + points,
        ),
        board=board.replace(
            question=board.question - fresh,
            siphoned=board.siphoned | fresh,
            centre=board.centre | here,
            spawn=digits.masked(board.spawn, ~blocks),
            amount=digits.masked(board.amount, ~yields),
            energy=board.energy - yields,
        ),
        owned=state.owned | jnp.where(active, _programs_around(board, player.cell), 0),
        pending=state.pending + digits.total(board.spawn, blocks),
        interval=jnp.where(active, jnp.maximum(4, state.interval - 1), state.interval),
        next_task=state.next_task + 5 * active,
    )


@outlined
def _fresh(centre: Array, siphoned: CellSet) -> CellSet:
    """Returns the cross around the centre without cells that are siphoned already."""
    return cells.cross(cells.at(centre)) - siphoned


@outlined
def _programs_around(board: Board, centre: Array) -> Array:
    """Returns the programs of the blocks in the cross around the centre that are not siphoned yet,
    as a word: bit i for program i.
    """
    blocks = board.program - board.siphoned
    programs = jnp.uint32(0)
    row, column = row_of(centre), column_of(centre)
    for up, right in ((0, 0), (1, 0), (-1, 0), (0, -1), (0, 1)):
        is_there = on_board(row + up, column + right)
        cell = jnp.where(is_there, centre + SIZE * up + right, 0)
        found = is_there & blocks.has(cell)
        program = digits.read(board.label, cells.at(cell)).astype(jnp.uint32)
        programs = programs | jnp.where(found, np.uint32(1) << program, 0)
    return programs


def missed_elsewhere(state: State) -> Array:
    """Returns how much more better places to siphon would have given: the most credits at one of
    them minus those here, plus the same for energy; 0 where there is no better place.

    A better place has no block and the same data points and new programs in its cross. It gives at
    least as many credits and as much energy as the place here, and more of one of them.
    """
    board, player = state.board, state.player
    fresh = EVERY - board.siphoned
    here = cells.at(player.cell)
    nothing_here = (here & board.blocks).any()
    cross = _fresh(player.cell, board.siphoned).only_if(~nothing_here)
    programs = jnp.where(nothing_here, 0, _programs_around(board, player.cell))
    new_programs = _blocks_of_other_programs(board, state.owned) & fresh
    blocks = cross & board.blocks
    has_data_or_programs = (cross & (board.data | new_programs)).any()
    # The cross of a better place has no data or new programs besides those here. If there are any
    # here, it must reach all blocks of the cross here.
    other = (fresh & board.data) | (
        _blocks_of_other_programs(board, state.owned | programs) & fresh
    )
    places = EVERY - board.blocks - cells.cross(other - cross)
    places = places & cells.where(has_data_or_programs, _reaching_all(player.cell, blocks), EVERY)

    open_cells = fresh - board.blocks
    cross = cross - board.blocks
    credits = _cross_sums(board.amount, open_cells - board.energy)
    energy = _cross_sums(board.amount, open_cells & board.energy)
    credits_here = digits.total(board.amount, cross - board.energy)
    energy_here = digits.total(board.amount, cross & board.energy)
    more_credits, same_credits = _compare(credits, credits_here)
    more_energy, same_energy = _compare(energy, energy_here)
    better = places & ((more_credits & (more_energy | same_energy)) | (same_credits & more_energy))
    found = better.any()
    more = digits.greatest(credits, better) - credits_here
    more = more + digits.greatest(energy, better) - energy_here
    return jnp.where(found, more, 0)


@outlined
def _blocks_of_other_programs(board: Board, programs: Array) -> CellSet:
    """Returns the program blocks whose program is not in the set (bit i for program i)."""
    known = EMPTY
    for number in range(len(Program)):
        is_known = (programs >> np.uint32(number)) & 1 != 0
        known = known | digits.equals(board.label, number).only_if(is_known)
    return board.program - known


def _reaching_all(centre: Array, blocks: CellSet) -> CellSet:
    """Returns the cells whose cross contains all of these blocks, which lie in the cross around the
    centre.
    """
    here = cells.at(centre)
    reaching = EVERY
    for block in (here, *(direction(here) for direction in cells.DIRECTIONS)):
        needed = (block & blocks).any()
        reaching = reaching & cells.where(needed, cells.cross(block), EVERY)
    return reaching


@outlined
def _cross_sums(numbers: Digits[CellSet], among: CellSet) -> Digits[CellSet]:
    """Returns, for every cell, the sum of these cells' numbers over its cross."""
    own = digits.masked(numbers, among)
    up, down, left, right = (tuple(map(shift, own)) for shift in cells.DIRECTIONS)
    pairs = digits.add(digits.add(up, down), digits.add(left, right))
    return digits.add(pairs, own)


def _compare(numbers: Digits[CellSet], value: Array) -> tuple[CellSet, CellSet]:
    """Returns the cells whose number is greater than the value, and those where it is equal."""
    return digits.compare(numbers, digits.repeated(value, len(numbers), EVERY))
