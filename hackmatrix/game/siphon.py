"""Siphoning the cross around the player, and how well the place was chosen (sections 5 and 12 of
the rules).
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
    """The siphon action of the active boards."""
    board, player = state.board, state.player
    here = cells.at(player.cell).only_if(active)
    fresh = _fresh(player.cell, board.siphoned).only_if(active)
    blocks = fresh & board.blocks
    yields = fresh - board.blocks
    amounts = digits.only(board.amount, yields)
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
            spawn=digits.only(board.spawn, ~blocks),
            amount=digits.only(board.amount, ~yields),
            energy=board.energy - yields,
        ),
        owned=state.owned | jnp.where(active, _programs_around(board, player.cell), 0),
        pending=state.pending + digits.total(board.spawn, blocks),
        interval=jnp.where(active, jnp.maximum(4, state.interval - 1), state.interval),
        next_task=state.next_task + 5 * active,
    )


@outlined
def _fresh(centre: Array, siphoned: CellSet) -> CellSet:
    """The cross around the centre, without what is siphoned already."""
    return cells.cross(cells.at(centre)) - siphoned


@outlined
def _programs_around(board: Board, centre: Array) -> Array:
    """The programs of the blocks in the cross around the centre that are not siphoned yet; bit i:
    program i.
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


def better_elsewhere(state: State) -> Array:
    """By how much the most credits and the most energy at better places to siphon exceed those
    here, in sum; 0 where there is no better place.

    A better place has the same data points and the same new programs in its cross. It has at least
    as many credits and as much energy, and more of one of them.
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
    # A place with the same data and programs reaches all blocks of the cross here, and no other
    # data or new programs.
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
    """The program blocks whose program is not in the set (bit i: program i)."""
    known = EMPTY
    for number in range(len(Program)):
        is_known = (programs >> np.uint32(number)) & 1 != 0
        known = known | digits.equals(board.label, number).only_if(is_known)
    return board.program - known


def _reaching_all(centre: Array, blocks: CellSet) -> CellSet:
    """The cells whose cross contains all of these blocks of the cross around the centre."""
    here = cells.at(centre)
    reaching = EVERY
    for block in (here, *(direction(here) for direction in cells.DIRECTIONS)):
        needed = (block & blocks).any()
        reaching = reaching & cells.where(needed, cells.cross(block), EVERY)
    return reaching


@outlined
def _cross_sums(numbers: Digits[CellSet], among: CellSet) -> Digits[CellSet]:
    """For every cell the sum over its cross."""
    own = digits.only(numbers, among)
    up, down, left, right = (tuple(map(shift, own)) for shift in cells.DIRECTIONS)
    pairs = digits.add(digits.add(up, down), digits.add(left, right))
    return digits.add(pairs, own)


def _compare(numbers: Digits[CellSet], value: Array) -> tuple[CellSet, CellSet]:
    """The cells whose number is greater than the value, and those where it is equal."""
    return digits.compare(numbers, digits.repeated(value, len(numbers), EVERY))
