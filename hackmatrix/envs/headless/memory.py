"""What the headless protocol tells of a game that its state does not hold.

The order in which programs were acquired, where each cryptog was last seen, and the snapshots for
UNDO beyond those the game keeps. Boards are scenarios (`game.scenario`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hackmatrix.envs.headless.view import Place, is_visible
from hackmatrix.game.cells import SIZE
from hackmatrix.game.programs import Program
from hackmatrix.game.state import SIPHON, History

Board = Mapping[str, Any]
_DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1))
CROSS = ((0, 0), *_DIRECTIONS)  # what a siphon takes, in this order
# What moves enemies about, but takes none off the board.
_KEEPS_ENEMIES = (SIPHON, Program.PUSH, Program.PULL, Program.WAIT)
_MAKES_ENEMIES_ANEW = (Program.POLY, Program.UNDO)


class Memory:
    """Of one game. `owned` are the programs in the order of acquisition."""

    def __init__(self, board: Board, owned: Iterable[int]) -> None:
        self.owned = list(owned)
        self._board = board
        self._last_seen = _places(board)

    def follow(self, action: int, board: Board) -> None:
        """The (valid) action led to this board."""
        self.owned = [program for program in self.owned if program in board["owned"]]
        self.owned += _acquired(self._board, self.owned, board["owned"])
        places = _places(board)
        known = [self._last_seen[number] for number in survivors(self._board, action, board)]
        remembered = known + places[len(known) :]
        self._last_seen = [
            now if is_visible(board, enemy) else then
            for enemy, now, then in zip(board["enemies"], places, remembered, strict=True)
        ]
        self._board = board

    def hints(self) -> list[Place]:
        """Where the cryptogs that are hidden now were last seen, or appeared."""
        return [
            place
            for enemy, place in zip(self._board["enemies"], self._last_seen, strict=True)
            if not is_visible(self._board, enemy)
        ]


class Snapshots:
    """Those that no longer fit into the history of the state, the newest last."""

    def __init__(self) -> None:
        self._older: list[np.ndarray] = []

    def follow(self, before: History, after: History) -> History:
        """The history after an action (host arrays of one board), filled up after an UNDO."""
        places = len(before.snapshots)
        if after.depth == places and after.head != before.head:
            if before.depth == places:
                self._older.append(np.array(before.snapshots[before.head]))  # none of the others
            return after
        if after.depth == before.depth - 1 and self._older:
            snapshots = np.array(after.snapshots)
            snapshots[(after.head - after.depth - 1) % places] = self._older.pop()
            return after.replace(snapshots=snapshots, depth=before.depth)
        return after


def _places(board: Board) -> list[Place]:
    return [(row, col) for _, row, col, *_ in board["enemies"]]


def _acquired(before: Board, known: list[int], owned: list[int]) -> list[int]:
    """The new programs of a siphon: from the player's cell, up, down, left, right."""
    row, col = before["player"][:2]
    cross = [(row + up, col + right) for up, right in CROSS]
    contents = [
        before["cells"][SIZE * row + col]
        for row, col in cross
        if 0 <= row < SIZE and 0 <= col < SIZE
    ]
    in_cross = [content[1] for content in contents if content[0] in ("P", "QP")]
    return [number for number in dict.fromkeys(in_cross) if number in owned and number not in known]


def survivors(before: Board, action: int, after: Board) -> list[int]:
    """Which of the enemies before are the first ones of the list after; any others are new."""
    numbers = list(range(len(before["enemies"])))
    if action in _MAKES_ENEMIES_ANEW:
        return []
    if action in _KEEPS_ENEMIES:
        return numbers
    if action < SIPHON:
        return [number for number in numbers if number != _shot(before, action)]
    # All others leave everyone alive where they are.
    survivors: list[int] = []
    for number in numbers:
        there = after["enemies"][len(survivors) : len(survivors) + 1]
        if there and before["enemies"][number][:3] == there[0][:3]:
            survivors.append(number)
    return survivors


def _shot(board: Board, direction: int) -> int | None:
    """The enemy that an action in this direction kills."""
    row, col, *_, attack, _ = board["player"]
    targets = {(entry[0], entry[1]) for entry in board["transmissions"]}
    enemies = _places(board)
    up, right = _DIRECTIONS[direction]
    row, col = row + up, col + right
    while 0 <= row < SIZE and 0 <= col < SIZE and (row, col) not in targets:
        if (row, col) in enemies:
            number = enemies.index((row, col))
            return number if board["enemies"][number][3] <= attack else None
        if board["cells"][SIZE * row + col][0] not in (".", "S", "X"):
            return None
        row, col = row + up, col + right
    return None
