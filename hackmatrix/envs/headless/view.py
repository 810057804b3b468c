"""What the headless protocol shows of a board, from its scenario (`game.scenario`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hackmatrix.game.cells import SIZE
from hackmatrix.game.programs import PROGRAMS
from hackmatrix.game.state import CRYPTOG, FIRST_PROGRAM

ENEMIES = ("virus", "daemon", "glitch", "cryptog")

Json = dict[str, Any]
Place = tuple[int, int]


def observation(board: Mapping[str, Any], owned: Iterable[int], hints: Iterable[Place]) -> Json:
    """Returns what the player sees. `owned` are the programs in order of acquisition, `hints` the
    places where hidden cryptogs are hinted at.
    """
    row, col, hp, credits, energy, siphons, attack, score = board["player"]
    enemies, transmissions = visible_enemies(board), _first_by_place(board["transmissions"], 0)
    return {
        "playerRow": row, "playerCol": col, "playerHP": hp, "credits": credits, "energy": energy,
        "stage": board["stage"], "turn": board["turn"], "dataSiphons": siphons,
        "baseAttack": attack, "score": score, "showActivated": bool(board["show"]),
        "scheduledTasksDisabled": bool(board["calm"]),
        "ownedPrograms": [FIRST_PROGRAM + program for program in owned],
        "cells": [
            [
                _cell(board, (row, col), enemies.get((row, col)), transmissions.get((row, col)))
                for col in range(SIZE)
            ]
            for row in range(SIZE)
        ],
        "cryptogHints": [{"row": row, "col": col} for row, col in hints],
    }  # fmt: skip


def internal_state(board: Mapping[str, Any]) -> Json:
    """Returns the answer to getInternalState, which no player sees."""
    return {
        "scheduledTaskInterval": board["interval"],
        "nextScheduledTaskTurn": board["next_task"],
        "pendingSiphonTransmissions": board["pending"],
        "turnCount": board["turn"],
        "enemies": [
            {
                "row": row, "col": col, "type": ENEMIES[kind], "hp": hp, "disabledTurns": disabled,
                "isStunned": bool(stunned), "spawnedFromSiphon": bool(siphon),
                "isFromScheduledTask": bool(schedule),
            }
            for kind, row, col, hp, disabled, stunned, siphon, schedule in board["enemies"]
        ],
    }  # fmt: skip


def is_visible(board: Mapping[str, Any], enemy: list[int]) -> bool:
    """Whether an enemy is seen: a cryptog only in the player's row or column, or under SHOW."""
    kind, row, col = enemy[:3]
    in_sight = row == board["player"][0] or col == board["player"][1] or board["show"]
    return kind != CRYPTOG or bool(in_sight)


def visible_enemies(board: Mapping[str, Any]) -> dict[Place, list[int]]:
    """Returns the first enemy of each cell, if it is seen."""
    first = _first_by_place(board["enemies"], 1)
    return {place: enemy for place, enemy in first.items() if is_visible(board, enemy)}


def _first_by_place(entries: list[list[int]], at: int) -> dict[Place, list[int]]:
    """Returns the first entry of each cell; entry[at] and entry[at + 1] are its row and column."""
    return {(entry[at], entry[at + 1]): entry for entry in reversed(entries)}


def _cell(
    board: Mapping[str, Any], place: Place, enemy: list[int] | None, transmission: list[int] | None
) -> Json:
    content = board["cells"][SIZE * place[0] + place[1]]
    kind, flags = content[0], content[-1]
    cell: Json = {
        "row": place[0],
        "col": place[1],
        "isDataSiphon": kind == "S",
        "isExit": kind == "X",
        "siphonCenter": bool(flags["m"]),
    }
    if enemy:
        cell["enemy"] = {
            "type": ENEMIES[enemy[0]],
            "hp": enemy[3],
            "isStunned": bool(enemy[5]),
            "spawnedFromSiphon": bool(enemy[6]),
        }
    is_block = kind not in (".", "S", "X")
    if is_block:
        cell["block"] = _block(content)
    if transmission:
        cell["transmission"] = {"turnsUntilSpawn": transmission[2]}
        if board["show"]:
            cell["transmission"]["enemyType"] = ENEMIES[transmission[3]]
    if flags["s"] or not is_block:
        for name in ("credits", "energy"):
            if flags[name[0]]:
                cell[name] = flags[name[0]]
    return cell


def _block(content: list[Any]) -> Json:
    kind, number, spawn, flags = content
    siphoned = {"isSiphoned": bool(flags["s"])}
    if kind[0] == "Q":
        return {"blockType": "question", **siphoned}
    if kind == "D":
        return {"blockType": "data", **siphoned, "points": number, "transmissionSpawnCount": spawn}
    return {
        "blockType": "program", **siphoned, "points": 0, "programType": PROGRAMS[number],
        "programActionIndex": FIRST_PROGRAM + number, "transmissionSpawnCount": spawn,
    }  # fmt: skip
