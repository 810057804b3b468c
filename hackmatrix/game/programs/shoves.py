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
    """Away from the player. The farthest candidate is always the step in both axes, each left out
    where it would leave the board.
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
    """Towards the player. The nearest candidate is the step in both axes, but only the row of it
    where both would end on the player, and none where a straight step would.
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
    """The slots whose row or column is greater than this one, and those where it is less."""
    greater, equal = digits.compare(lines, digits.repeated(line, len(lines), slots.ALL))
    return greater, ~(greater | equal)
