"""The state of a game, and the plain dict with the keys of the golden data (section 1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

Position = tuple[int, int]
State = dict[str, Any]

SIZE = 6
HISTORY_LIMIT = 16
POSITIONS = [(row, col) for row in range(SIZE) for col in range(SIZE)]
CORNERS = [(0, 0), (0, SIZE - 1), (SIZE - 1, 0), (SIZE - 1, SIZE - 1)]
DIRECTIONS = [(1, 0), (-1, 0), (0, -1), (0, 1)]

EMPTY, DATA_SIPHON, EXIT = ".", "S", "X"
DATA, PROGRAM, HIDDEN_DATA, HIDDEN_PROGRAM = "D", "P", "QD", "QP"
QUESTIONS = (HIDDEN_DATA, HIDDEN_PROGRAM)
BLOCKS = (DATA, PROGRAM, *QUESTIONS)

VIRUS, DAEMON, GLITCH, CRYPTOG = range(4)
MAX_HP = 3
ENEMY_HP = [2, 3, 2, 2]


class Piece:
    """Anything that stands on a cell."""

    row: int
    col: int

    @property
    def position(self) -> Position:
        return self.row, self.col

    def place(self, position: Position) -> None:
        self.row, self.col = position


@dataclass
class Player(Piece):
    row: int
    col: int
    hp: int
    credits: int
    energy: int
    siphons: int
    attack: int
    score: int


@dataclass(eq=False)
class Enemy(Piece):
    type: int
    row: int
    col: int
    hp: int
    disabled: int = 0
    stunned: int = 0
    from_siphon: int = 0
    from_schedule: int = 0


@dataclass(eq=False)
class Transmission(Piece):
    row: int
    col: int
    turns: int
    type: int
    from_siphon: int = 0
    from_schedule: int = 0


@dataclass
class Cell:
    kind: str = EMPTY
    value: int = 0  # the points of a data block, the program of a program block
    spawn: int = 0
    credits: int = 0
    energy: int = 0
    siphoned: int = 0
    centre: int = 0  # whether the player siphoned from here

    @property
    def is_block(self) -> bool:
        return self.kind in BLOCKS

    @property
    def is_data(self) -> bool:
        return self.kind in (DATA, HIDDEN_DATA)

    @property
    def is_program(self) -> bool:
        return self.kind in (PROGRAM, HIDDEN_PROGRAM)


@dataclass
class Snapshot:
    """What UNDO restores (section 8)."""

    player: Player
    turn: int
    cells: dict[Position, Cell]
    enemies: list[Enemy]
    transmissions: list[Transmission]
    owned: list[int]
    show: int
    calm: int
    atk_uses: int

    def enemies_and_transmissions(self) -> list[Enemy | Transmission]:
        return [*self.enemies, *self.transmissions]


@dataclass
class Game(Snapshot):
    stage: int
    exit: Position
    step: int
    pending: int
    interval: int
    next_task: int
    history: list[Snapshot | None]  # oldest first; None where the golden data leaves it out

    def is_block(self, position: Position) -> bool:
        return self.cells[position].is_block

    def enemies_at(self, position: Position) -> list[Enemy]:
        return [enemy for enemy in self.enemies if enemy.position == position]

    def transmissions_at(self, position: Position) -> list[Transmission]:
        return [each for each in self.transmissions if each.position == position]

    def push_snapshot(self) -> None:
        snapshot = Snapshot(**_load_common(_dump_common(self)))
        for each in snapshot.enemies_and_transmissions():
            each.from_siphon = each.from_schedule = 0
        self.history = [*self.history, snapshot][-HISTORY_LIMIT:]

    def pop_snapshot(self) -> None:
        snapshot = self.history.pop()
        if snapshot is None:
            raise ValueError("the contents of this snapshot were not given")
        for name in SNAPSHOT_FIELDS:
            setattr(self, name, getattr(snapshot, name))


SNAPSHOT_FIELDS = [field.name for field in fields(Snapshot)]


def on_board(position: Position) -> bool:
    return 0 <= position[0] < SIZE and 0 <= position[1] < SIZE


def neighbours(position: Position) -> list[Position]:
    """The neighbours on the board, in the order of directions."""
    row, col = position
    return [each for dr, dc in DIRECTIONS if on_board(each := (row + dr, col + dc))]


def cross(position: Position) -> list[Position]:
    return [position, *neighbours(position)]


def surroundings(position: Position) -> list[Position]:
    """The (up to 8) cells around a position, also diagonally."""
    row, col = position
    return [each for each in POSITIONS if max(abs(each[0] - row), abs(each[1] - col)) == 1]


def manhattan(a: Position, b: Position) -> int:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def distances_to(goal: Position, passable: Callable[[Position], bool]) -> dict[Position, int]:
    """Steps to the goal from every passable cell that has a path to it."""
    distances = {goal: 0}
    queue = deque([goal])
    while queue:
        current = queue.popleft()
        for each in neighbours(current):
            if each not in distances and passable(each):
                distances[each] = distances[current] + 1
                queue.append(each)
    return distances


def load(state: State) -> Game:
    history = [entry and Snapshot(**_load_common(entry)) for entry in state.get("history", [])]
    return Game(
        **_load_common(state),
        stage=state["stage"],
        exit=tuple(state["exit"]),
        step=state["step"],
        pending=state["pending"],
        interval=state["interval"],
        next_task=state["next_task"],
        history=history or [None] * min(HISTORY_LIMIT, state["history_depth"]),
    )


def dump(game: Game) -> State:
    return {
        **_dump_common(game),
        "stage": game.stage,
        "exit": list(game.exit),
        "step": game.step,
        "pending": game.pending,
        "interval": game.interval,
        "next_task": game.next_task,
        "history_depth": len(game.history),
        "history": [entry and _dump_common(entry) for entry in game.history],
    }


def _load_common(state: State) -> State:
    return {
        "player": Player(*state["player"]),
        "turn": state["turn"],
        "cells": {at: _load_cell(cell) for at, cell in zip(POSITIONS, state["cells"], strict=True)},
        "enemies": [Enemy(*entry) for entry in state["enemies"]],
        "transmissions": [Transmission(*entry) for entry in state["transmissions"]],
        "owned": list(state["owned"]),
        "show": state["show"],
        "calm": state["calm"],
        "atk_uses": state["atk_uses"],
    }


def _dump_common(snapshot: Snapshot) -> State:
    return {
        "player": list(vars(snapshot.player).values()),
        "turn": snapshot.turn,
        "cells": [_dump_cell(snapshot.cells[position]) for position in POSITIONS],
        "enemies": [list(vars(enemy).values()) for enemy in snapshot.enemies],
        "transmissions": [list(vars(each).values()) for each in snapshot.transmissions],
        "owned": list(snapshot.owned),
        "show": snapshot.show,
        "calm": snapshot.calm,
        "atk_uses": snapshot.atk_uses,
    }


def _load_cell(entry: list[Any]) -> Cell:
    kind, *block, flags = entry
    value, spawn = block or (0, 0)
    return Cell(kind, value, spawn, flags["c"], flags["e"], flags["s"], flags["m"])


def _dump_cell(cell: Cell) -> list[Any]:
    block = [cell.value, cell.spawn] if cell.is_block else []
    flags = {"c": cell.credits, "e": cell.energy, "s": cell.siphoned, "m": cell.centre}
    return [cell.kind, *block, flags]
