"""PUSH and PULL: which enemies go one step, and in which directions."""

from __future__ import annotations

import jax

from hackmatrix.game import digits, slots
from hackmatrix.game.cells import SIZE, column_of, row_of
from hackmatrix.game.digits import Digits
from hackmatrix.game.programs.contract import Steps
from hackmatrix.game.state import State

Array = jax.Array


def push(state: State) -> Steps:
    """Returns steps away from the player: one in each axis in which an enemy is apart from it and
    stays on the board. No cell in reach is farther away.
    """
    enemies, cell = state.enemies, state.player.cell
    above, below = _sides(enemies.row, row_of(cell))
    right, left = _sides(enemies.column, column_of(cell))
    return Steps(
        up=above & ~digits.equals(enemies.row, SIZE - 1),
        down=below & ~digits.equals(enemies.row, 0),
        left=left & ~digits.equals(enemies.column, 0),
        right=right & ~digits.equals(enemies.column, SIZE - 1),
    )


def pull(state: State) -> Steps:
    """Returns steps towards the player: one in each axis in which an enemy is apart from it. None
    may reach its cell: an enemy diagonally beside it changes its row alone, and one straight
    beside it stays.
    """
    enemies, cell = state.enemies, state.player.cell
    above, below = _sides(enemies.row, row_of(cell))
    right, left = _sides(enemies.column, column_of(cell))
    in_row = ~slots.beside(enemies, cell)
    in_column = in_row & ~slots.diagonal(enemies, cell)
    return Steps(
        up=below & in_row, down=above & in_row, left=right & in_column, right=left & in_column
    )


def _sides(lines: Digits[Array], line: Array) -> tuple[Array, Array]:
    """Returns the slots whose row or column is greater than this one, and those whose is less."""
    greater, equal = digits.compare(lines, digits.repeated(line, len(lines), slots.ALL))
    return greater, ~(greater | equal)
