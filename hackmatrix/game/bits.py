"""How many bits each number of a state has, and so how great it can be.

The rules make smaller numbers than fit here. `scenario.load` refuses a greater one and says what
would fit.
"""

from __future__ import annotations

WORD = 32

# Numbers in cells.
LABEL = 5  # the points of a data block, or the number of a program
SPAWN = 4  # transmissions that siphoning a block brings about
AMOUNT = 3  # credits or energy

# Numbers in the lists of enemies and transmissions.
LINE = 3  # a row or a column
KIND = 2
HP = 2
TURNS = 6

# Numbers in a snapshot of the history. The programs owned share a word with the uses of ATK+.
CELL = 6
CREDITS, ENERGY = 16, 16
DATA_SIPHONS, ATTACK = 12, 12
TURN = 16
ENTRIES = 6  # the length of a list
ATK_USES = 7
OWNED = WORD - ATK_USES


def greatest(bits: int) -> int:
    """The greatest number of so many bits."""
    return (1 << bits) - 1


def greatest_to_grow(bits: int) -> int:
    """The greatest that a number may be on a board that is set up, as it still grows: half of what
    fits.
    """
    return greatest(bits - 1)
