"""What the headless protocol needs of a game beyond its state.

That is the order in which programs were acquired, where each cryptog was last seen, and the
snapshots for UNDO beyond those the state stores. Boards are scenarios (`game.scenario`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hackmatrix.envs.headless.view import Place, is_visible
from hackmatrix.game.cells import SIZE
from hackmatrix.game.programs import Program
from hackmatrix.game.programs.contract import Strike
from hackmatrix.game.state import DAEMON, SIPHON, History

Board = Mapping[str, Any]
_DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1))
CROSS = ((0, 0), *_DIRECTIONS)  # the cells that a siphon takes, in this order
# Actions that may move enemies, but remove none.
_KEEPS_ENEMIES = (SIPHON, Program.PUSH, Program.PULL, Program.WAIT)
_MAKES_ENEMIES_ANEW = (Program.POLY, Program.UNDO)
_STRIKES = [each for each in Program if isinstance(each.function, Strike)]


class Memory:
    """The memory of one game. `owned` are the programs in order of acquisition."""

    def __init__(self, board: Board, owned: Iterable[int]) -> None:
        self.owned = list(owned)
        self._board = board
        self._last_seen = _places(board)

    def follow(self, action: int, board: Board) -> None:
        """Records that the (valid) action led to this board."""
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
        """Returns where the cryptogs that are hidden now were last seen, or appeared."""
        return [
            place
            for enemy, place in zip(self._board["enemies"], self._last_seen, strict=True)
            if not is_visible(self._board, enemy)
        ]


class Snapshots:
    """The snapshots that no longer fit into the history of the state, the newest last."""

    def __init__(self) -> None:
        self._older: list[np.ndarray] = []

    def follow(self, before: History, after: History) -> History:
        """Returns the history after an action, refilled after an UNDO; host arrays of one board."""
        places = len(before.snapshots)
        if after.depth == places and after.head != before.head:
            if before.depth == places:
                self._older.append(np.array(before.snapshots[before.head]))  # not a view of all
            return after
        if after.depth == before.depth - 1 and self._older:
            snapshots = np.array(after.snapshots)
            snapshots[(after.head - after.depth - 1) % places] = self._older.pop()
            return after.replace(snapshots=snapshots, depth=before.depth)
        return after


def _places(board: Board) -> list[Place]:
    return [(row, col) for _, row, col, *_ in board["enemies"]]


def _acquired(before: Board, known: list[int], owned: list[int]) -> list[int]:
    """Returns a siphon's new programs: from the player's cell, up, down, left, right."""
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
    """Returns the indices of the enemies that survived, in order. They are the first ones in
    `after`; any others there are new.
    """
    numbers = list(range(len(before["enemies"])))
    if action in _MAKES_ENEMIES_ANEW:
        return []
    if action in _KEEPS_ENEMIES:
        return numbers
    if action < SIPHON:
        return [number for number in numbers if number != _shot(before, action)]
    if action in _STRIKES:
        return _not_struck_down(before, action, after)
    # All other programs leave the survivors where they are.
    found: list[int] = []
    for number in numbers:
        there = after["enemies"][len(found) : len(found) + 1]
        if there and before["enemies"][number][:3] == there[0][:3]:
            found.append(number)
    return found


def _shot(board: Board, direction: int) -> int | None:
    """Returns the index of the enemy that an action in this direction kills, or None."""
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


def _not_struck_down(before: Board, action: int, after: Board) -> list[int]:
    """Returns the indices of the enemies that survive a program that hits enemies. Those of a kind
    in one cell take the same damage, so those with the most hp survive.
    """
    old = before["enemies"]
    taken = _nearest_daemon(before) if action == Program.D_BOM else None
    strongest = sorted(
        range(len(old)), key=lambda each: (each != taken, old[each][3]), reverse=True
    )
    left, alive = Counter(tuple(enemy[:3]) for enemy in after["enemies"]), []
    for number in strongest:
        if left[tuple(old[number][:3])]:
            left[tuple(old[number][:3])] -= 1
            alive.append(number)
    return sorted(alive)


def _nearest_daemon(board: Board) -> int:
    """Returns the index of the daemon that D_BOM removes: the first of the nearest."""
    row, col = board["player"][:2]
    daemons = [number for number, enemy in enumerate(board["enemies"]) if enemy[0] == DAEMON]

    def steps(number: int) -> int:
        _, its_row, its_col, *_ = board["enemies"][number]
        return abs(its_row - row) + abs(its_col - col)

    return min(daemons, key=steps)
