"""The number of bits of each number in a state, which limits how large it can be.

The numbers that arise in play fit. `scenario.load` rejects a larger one and reports the limit.
"""

from __future__ import annotations

WORD = 32

# Numbers in cells.
LABEL = 5  # the points of a data block, or the number of a program
SPAWN = 4  # the transmissions that siphoning a block calls
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
    """Returns the largest number that fits into this many bits."""
    return (1 << bits) - 1


def greatest_to_grow(bits: int) -> int:
    """Returns the largest number that a board is set up with, as it may grow: half of what fits."""
    return greatest(bits - 1)
