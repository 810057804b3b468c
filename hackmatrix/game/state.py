"""The state of a game, and the constants of the rules.

Every leaf may have a batch axis in front ([E] boards). The rules do not depend on it, except for
`ring` (snapshots [E, places, words]) and `few` (which gathers the boards that need a rare rule).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
from flax import struct

from hackmatrix.game import bits
from hackmatrix.game.cells import CellSet
from hackmatrix.game.digits import Digits
from hackmatrix.game.ring import History

Array = jax.Array

SIPHON = 4
FIRST_PROGRAM = 5
STAGES = 8
MAX_HP = 3
FIRST_INTERVAL = 12
# How many snapshots a board keeps for UNDO. The best agent wins 34% of its games with 4 of them and
# 38% with 8. With 16, 32 and 64 it wins the same games.
HISTORY_DEPTH = 16

VIRUS, DAEMON, GLITCH, CRYPTOG = range(4)
ENEMY_HP = (2, 3, 2, 2)


class Player(struct.PyTreeNode):
    cell: Array
    hp: Array
    credits: Array
    energy: Array
    data_siphons: Array
    attack: Array
    score: Array


class Board(struct.PyTreeNode):
    """What the cells hold. A hidden block is in `question` and in `data` or `program`."""

    data: CellSet
    program: CellSet
    question: CellSet
    data_siphon: CellSet
    exit: CellSet
    siphoned: CellSet
    centre: CellSet
    label: Digits[CellSet]  # the points of a data block, the number of a program
    spawn: Digits[CellSet]
    amount: Digits[CellSet]  # credits or energy
    energy: CellSet  # where the amount is energy

    @property
    def blocks(self) -> CellSet:
        return self.data | self.program

    @classmethod
    def of(cls, sets: Iterable[CellSet]) -> Board:
        """Returns the board of these BOARD_SETS cell sets, in the order of its leaves."""
        rest = iter(sets)

        def digits(number: int) -> Digits[CellSet]:
            return tuple(next(rest) for _ in range(number))

        return cls(
            data=next(rest),
            program=next(rest),
            question=next(rest),
            data_siphon=next(rest),
            exit=next(rest),
            siphoned=next(rest),
            centre=next(rest),
            label=digits(bits.LABEL),
            spawn=digits(bits.SPAWN),
            amount=digits(bits.AMOUNT),
            energy=next(rest),
        )


BOARD_SETS = 7 + bits.LABEL + bits.SPAWN + bits.AMOUNT + 1


class Enemies(struct.PyTreeNode):
    """Slot sets; `row`, `column`, `kind` and `hp` are binary digits, least significant first."""

    present: Array
    row: Digits[Array]
    column: Digits[Array]
    kind: Digits[Array]
    hp: Digits[Array]
    disabled: Array
    stunned: Array
    from_siphon: Array
    from_schedule: Array


class Transmissions(struct.PyTreeNode):
    """Slot sets, as in Enemies. `turns` has 6 digits and saturates at 63."""

    present: Array
    row: Digits[Array]
    column: Digits[Array]
    kind: Digits[Array]
    turns: Digits[Array]
    from_siphon: Array
    from_schedule: Array


class State(struct.PyTreeNode):
    player: Player
    board: Board
    enemies: Enemies
    transmissions: Transmissions
    stage: Array
    turn: Array
    exit_cell: Array
    owned: Array  # bit i: program i
    show: Array
    calm: Array
    step: Array
    atk_uses: Array
    pending: Array
    interval: Array
    next_task: Array
    history: History


class Effects(struct.PyTreeNode):
    """What the player's action did that the states before and after it do not show."""

    kills: Array  # those that count
    picked: Array  # data siphons picked up by walking
    missed: Array  # credits and energy that a better place to siphon had more


class Outcome(struct.PyTreeNode):
    """The outcome of an action. `parts` are the 15 named parts of `reward`."""

    reward: Array
    parts: dict[str, Array]
    done: Array
    invalid: Array
    stage_completed: Array
    won: Array
    died: Array

    @classmethod
    def alike(cls, number: Any, flag: Any, parts: Iterable[str]) -> Outcome:
        """Returns an outcome with this number, or this flag, in every field: for their shapes."""
        return cls(number, dict.fromkeys(parts, number), *[flag] * 5)
