"""DEBUG, ROW, COL, D_BOM, ANTI-V and HACK: which enemies take damage, and how much."""

from __future__ import annotations

import functools
import operator

import jax

from hackmatrix.game import combat, digits, slots
from hackmatrix.game.cells import column_of, row_of
from hackmatrix.game.programs.contract import Blow, Situation
from hackmatrix.game.state import DAEMON, VIRUS, Enemies, State

Array = jax.Array


def debug(state: State) -> Blow:
    """Enemies on blocks take the attack damage."""
    return Blow(slots.in_cells(state.enemies, state.board.blocks), state.player.attack)


def is_enemy_on_block(now: Situation) -> Array:
    return (now.enemies & now.state.board.blocks).any()


def row(state: State) -> Blow:
    """Enemies in the player's row take the attack damage."""
    in_row = digits.equals(state.enemies.row, row_of(state.player.cell))
    return Blow(in_row, state.player.attack)


def is_enemy_in_row(now: Situation) -> Array:
    return now.state.enemies.present & row(now.state).hit != 0


def col(state: State) -> Blow:
    """Enemies in the player's column take the attack damage."""
    in_column = digits.equals(state.enemies.column, column_of(state.player.cell))
    return Blow(in_column, state.player.attack)


def is_enemy_in_column(now: Situation) -> Array:
    return now.state.enemies.present & col(now.state).hit != 0


def d_bom(state: State) -> Blow:
    """Removes the nearest daemon, and enemies in the 8 cells around it take 1 damage."""
    enemies = state.enemies
    daemon = combat.nearest(enemies, _daemons(enemies), state.player.cell)
    around = slots.around(enemies, slots.cell_of(enemies, daemon))
    return Blow(functools.reduce(operator.or_, around), damage=1, removed=daemon)


def is_any_daemon(now: Situation) -> Array:
    return _daemons(now.state.enemies) != 0


def _daemons(enemies: Enemies) -> Array:
    return enemies.present & digits.equals(enemies.kind, DAEMON)


def anti_v(state: State) -> Blow:
    """Every virus takes 1 damage."""
    return Blow(digits.equals(state.enemies.kind, VIRUS), damage=1)


def is_any_virus(now: Situation) -> Array:
    return now.state.enemies.present & anti_v(now.state).hit != 0


def hack(state: State) -> Blow:
    """Enemies on siphoned cells take the attack damage."""
    return Blow(slots.in_cells(state.enemies, state.board.siphoned), state.player.attack)


def is_any_cell_siphoned(now: Situation) -> Array:
    return now.state.board.siphoned.any()
