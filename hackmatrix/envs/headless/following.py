"""Follows a game that another program plays over the headless protocol; the inverse of `view`.

An agent that looks ahead needs a whole board. What the protocol tells is copied. What it leaves out
although a player knows it is remembered from turn to turn: the snapshots for UNDO, STEP, the uses
of ATK+, the exit that counts. What a player cannot know gets any valid value, and `game.hidden`
redraws it later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from hackmatrix.envs.headless.memory import CROSS
from hackmatrix.envs.headless.view import ENEMIES
from hackmatrix.game import bits, scenario
from hackmatrix.game.programs import Program
from hackmatrix.game.slots import CAPACITY
from hackmatrix.game.state import FIRST_PROGRAM, HISTORY_DEPTH, History, State

Json = Mapping[str, Any]
_ENDS_THE_TURN = (*range(FIRST_PROGRAM), Program.WAIT)


class _Snapshot(NamedTuple):
    """What UNDO brings back, packed as in a history."""

    words: np.ndarray
    atk_uses: int

    @classmethod
    def of(cls, board: Mapping[str, Any]) -> _Snapshot:
        alone: Any = scenario.load({**board, "history": [board]}, history_depth=1)
        return cls(alone.history.snapshots[0], board["atk_uses"])


class Followed:
    """A game followed from its first turn. A board is given by the answers to reset or step, to
    getInternalState and to getValidActions. Raises LookupError, TypeError, ValueError or
    AttributeError if they do not describe a board.
    """

    def __init__(self, seen: Json, internal: Json, valid: Collection[int]) -> None:
        self._snapshots: list[_Snapshot] = []
        self._board = {**_told(seen, internal, valid), **_in_a_new_stage(seen)}

    def follow(self, action: int, seen: Json, internal: Json, valid: Collection[int]) -> None:
        """Records that the action led to this board."""
        before, now = self._board, _told(seen, internal, valid)
        is_new = now["stage"] != before["stage"]
        remembered = {name: before[name] for name in ("exit", "step", "atk_uses")}
        if is_new:
            remembered = _in_a_new_stage(seen)
        elif action == Program.UNDO:
            remembered["atk_uses"] = self._snapshots.pop().atk_uses
        elif action == Program.ATK:
            remembered["atk_uses"] += 1
        elif action == Program.STEP:
            remembered["step"] = 1
        elif action in _ENDS_THE_TURN:
            remembered["step"] = 0
        self._board = {**now, **remembered}
        # An enemy turn that STEP cancels is not counted and leaves no snapshot.
        if action in _ENDS_THE_TURN and now["turn"] == before["turn"] + 1:
            self._snapshots.append(_Snapshot.of(self._board))

    def state(self) -> State:
        """Returns the current board, with the newest snapshots."""
        state: Any = scenario.load(self._board)
        words = np.zeros_like(state.history.snapshots)
        newest = [snapshot.words for snapshot in self._snapshots[-HISTORY_DEPTH:]]
        words[: len(newest)] = np.array(newest).reshape(-1, words.shape[-1])
        depth: Any = np.int32(len(newest))
        return state.replace(history=History(words, depth % HISTORY_DEPTH, depth))


def _in_a_new_stage(seen: Json) -> dict[str, Any]:
    exits = [[cell["row"], cell["col"]] for cell in _cells(seen) if cell["isExit"]]
    return {"exit": exits[0], "step": 0, "atk_uses": 0}


def _told(seen: Json, internal: Json, valid: Collection[int]) -> dict[str, Any]:
    """Returns the scenario of a board, as far as the protocol tells it."""
    # 1 if REDUC is valid, so that it is valid on our board, too: `game.hidden` relies on that.
    hidden_spawn = int(Program.REDUC in valid)
    siphoned = _siphoned(seen)
    return {
        "player": [
            seen[name]
            for name in (
                "playerRow", "playerCol", "playerHP", "credits", "energy", "dataSiphons",
                "baseAttack", "score",
            )
        ],
        "stage": seen["stage"],
        "turn": seen["turn"],
        "cells": [_content(cell, siphoned, hidden_spawn) for cell in _cells(seen)],
        # Our game has no room for more of them, nor for longer waits.
        "enemies": [_enemy(enemy) for enemy in internal["enemies"]][:CAPACITY],
        "transmissions": [
            _transmission(cell) for cell in _cells(seen) if "transmission" in cell
        ][:CAPACITY],
        "owned": [action - FIRST_PROGRAM for action in seen["ownedPrograms"]],
        "show": seen["showActivated"],
        "calm": seen["scheduledTasksDisabled"],
        "interval": internal["scheduledTaskInterval"],
        "next_task": internal["nextScheduledTaskTurn"],
        "pending": internal["pendingSiphonTransmissions"],
    }  # fmt: skip


def _cells(seen: Json) -> Iterator[Json]:
    return (cell for row in seen["cells"] for cell in row)


def _siphoned(seen: Json) -> set[tuple[int, int]]:
    """Returns the cells that count as siphoned. The protocol does not mark those without a block,
    but it tells from where the player has siphoned.
    """
    centres = [(cell["row"], cell["col"]) for cell in _cells(seen) if cell["siphonCenter"]]
    return {(row + up, col + right) for row, col in centres for up, right in CROSS}


def _content(cell: Json, siphoned: Collection[tuple[int, int]], hidden_spawn: int) -> list[Any]:
    block = cell.get("block", {})
    flags = {
        "c": cell.get("credits", 0),
        "e": cell.get("energy", 0),
        "s": block.get("isSiphoned", False) or (cell["row"], cell["col"]) in siphoned,
        "m": cell["siphonCenter"],
    }
    match block.get("blockType"):
        case "data":
            return ["D", block["points"], block["transmissionSpawnCount"], flags]
        case "program":
            program = block["programActionIndex"] - FIRST_PROGRAM
            return ["P", program, block["transmissionSpawnCount"], flags]
        case "question":
            return ["QD", 1, hidden_spawn, flags]
    return ["S" if cell["isDataSiphon"] else "X" if cell["isExit"] else ".", flags]


def _enemy(enemy: Json) -> list[Any]:
    return [
        ENEMIES.index(enemy["type"]),
        enemy["row"],
        enemy["col"],
        enemy["hp"],
        enemy["disabledTurns"] > 0,
        enemy["isStunned"],
        enemy["spawnedFromSiphon"],
        enemy["isFromScheduledTask"],
    ]


def _transmission(cell: Json) -> list[Any]:
    told = cell["transmission"]
    kind = ENEMIES.index(told.get("enemyType", ENEMIES[0]))
    turns = min(told["turnsUntilSpawn"], bits.greatest(bits.TURNS))
    return [cell["row"], cell["col"], turns, kind, 0, 0]
