"""The table of the programs (section 3 of the rules).

To add a program, write its function, with its condition of use where it has one, and a row here.
Everything else follows from the table: the number of actions, who can pay, what blocks hold, what
is observed.
"""

from __future__ import annotations

from enum import IntEnum

from hackmatrix.game import bits
from hackmatrix.game.bits import WORD
from hackmatrix.game.programs import removals, shoves, strikes, switches
from hackmatrix.game.programs.contract import (
    Change,
    Condition,
    Shove,
    Strike,
    always,
    is_any_enemy,
)
from hackmatrix.game.state import FIRST_PROGRAM


class Program(IntEnum):
    """A program, as the number of its action. A row holds its title, its cost in credits and in
    energy, the spawn of its blocks, its function, and when it is usable if owned and affordable.
    """

    title: str
    credits: int
    energy: int
    spawn: int
    function: Change | Strike | Shove
    is_usable: Condition

    PUSH = "push", 0, 2, 4, Shove(shoves.push), is_any_enemy
    PULL = "pull", 0, 2, 4, Shove(shoves.pull), is_any_enemy
    CRASH = "crash", 3, 2, 6, removals.crash, removals.is_anything_around
    WARP = "warp", 2, 2, 5, removals.warp, removals.is_any_enemy_or_transmission
    POLY = "poly", 1, 1, 3, removals.poly, is_any_enemy
    WAIT = "wait", 0, 1, 1, switches.wait, always
    DEBUG = "debug", 3, 0, 4, Strike(strikes.debug), strikes.is_enemy_on_block
    ROW = "row", 3, 1, 2, Strike(strikes.row), strikes.is_enemy_in_row
    COL = "col", 3, 1, 2, Strike(strikes.col), strikes.is_enemy_in_column
    UNDO = "undo", 1, 0, 3, switches.undo, switches.is_any_snapshot
    STEP = "step", 0, 3, 4, switches.step, always
    SIPH = "siph+", 5, 0, 7, switches.siph, always
    EXCH = "exch", 4, 0, 3, switches.exch, always
    SHOW = "show", 2, 0, 2, switches.show, switches.is_show_off
    RESET = "reset", 0, 4, 2, switches.reset, switches.is_hurt
    CALM = "calm", 2, 4, 6, switches.calm, switches.is_calm_off
    D_BOM = "d_bom", 3, 0, 4, Strike(strikes.d_bom), strikes.is_any_daemon
    DELAY = "delay", 1, 2, 4, switches.delay, switches.is_any_transmission
    ANTI_V = "anti-v", 3, 0, 4, Strike(strikes.anti_v), strikes.is_any_virus
    SCORE = "score", 0, 5, 5, switches.score, switches.is_before_last_stage
    REDUC = "reduc", 2, 1, 3, switches.reduc, switches.is_any_block_reducible
    ATK = "atk+", 4, 4, 8, switches.atk, switches.is_atk_left
    HACK = "hack", 2, 2, 4, Strike(strikes.hack), strikes.is_any_cell_siphoned

    def __new__(
        cls,
        title: str,
        credits: int,
        energy: int,
        spawn: int,
        function: Change | Strike | Shove,
        is_usable: Condition,
    ) -> Program:
        program = int.__new__(cls, FIRST_PROGRAM + len(cls.__members__))
        program._value_ = int(program)
        program.title, program.spawn = title, spawn
        program.credits, program.energy = credits, energy
        program.function, program.is_usable = function, is_usable
        return program

    @property
    def number(self) -> int:
        """Its number among the programs, as in the labels of blocks and in `State.owned`."""
        return self - FIRST_PROGRAM


PROGRAMS = [program.title for program in Program]
ACTIONS = FIRST_PROGRAM + len(Program)

_TOO_MANY = f"{len(Program)} programs, but "
assert len(Program) <= bits.OWNED, _TOO_MANY + f"a snapshot has room for {bits.OWNED}"
assert len(Program) <= 1 << bits.LABEL, _TOO_MANY + f"a label can name only {1 << bits.LABEL}"
assert ACTIONS <= WORD, _TOO_MANY + f"the word of valid actions has only {WORD} bits"
