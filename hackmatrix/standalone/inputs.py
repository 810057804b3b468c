"""Builds the inputs of a policy, observation and mask, from answers of the headless protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# As the environment declares them, which would import JAX.
PARTS = {"player": (10,), "programs": (23,), "cells": (6, 6, 42)}
ACTION_NAMES = (
    "up", "down", "left", "right", "siphon", "push", "pull", "crash", "warp", "poly", "wait",
    "debug", "row", "col", "undo", "step", "siph+", "exch", "show", "reset", "calm", "d_bom",
    "delay", "anti-v", "score", "reduc", "atk+", "hack",
)  # fmt: skip
ACTIONS, SIZE = len(ACTION_NAMES), sum(map(math.prod, PARTS.values()))
ENEMIES = ("virus", "daemon", "glitch", "cryptog")
_PROGRAMS = 23
_FIRST_PROGRAM = 5
_MOST_SHOWN = 50  # credits or energy; more are cut off
_LONGEST_WAIT = 4  # turns until a transmission arrives; more are cut off
Json = Mapping[str, Any]


def vector(seen: Json) -> np.ndarray:
    """Returns f32[1545]: 10 numbers of the player, 23 programs, 42 numbers of each of 36 cells."""
    owned = np.zeros(_PROGRAMS)
    programs = [action - _FIRST_PROGRAM for action in seen["ownedPrograms"]]
    if not all(0 <= number < _PROGRAMS for number in programs):
        raise ValueError(
            f"programs are numbers from {_FIRST_PROGRAM} to {_FIRST_PROGRAM + _PROGRAMS - 1}, not "
            f"{seen['ownedPrograms']}"
        )
    owned[programs] = 1
    cells = [_cell(cell) for row in seen["cells"] for cell in row]
    return np.concatenate([_player(seen), owned, *cells]).astype(np.float32)


def mask(valid_actions: Sequence[int | np.integer]) -> np.ndarray:
    """Returns bool[28], from the answer to getValidActions."""
    whole = (
        isinstance(each, int | np.integer) and not isinstance(each, bool) for each in valid_actions
    )
    if not all(whole) or not all(0 <= each < ACTIONS for each in valid_actions):
        raise ValueError(f"actions are numbers from 0 to {ACTIONS - 1}, not {valid_actions}")
    allowed = np.zeros(ACTIONS, bool)
    allowed[[int(each) for each in valid_actions]] = True
    return allowed


def _player(seen: Json) -> list[float]:
    return [
        seen["playerRow"] / 5,
        seen["playerCol"] / 5,
        seen["playerHP"] / 3,
        min(seen["credits"], _MOST_SHOWN) / _MOST_SHOWN,
        min(seen["energy"], _MOST_SHOWN) / _MOST_SHOWN,
        (seen["stage"] - 1) / 7,
        seen["dataSiphons"] / 10,
        (seen["baseAttack"] - 1) / 2,
        float(seen["showActivated"]),
        float(seen["scheduledTasksDisabled"]),
    ]


def _cell(cell: Json) -> list[float]:
    enemy, block = cell.get("enemy", {}), cell.get("block", {})
    kind = block.get("blockType")
    program = block.get("programActionIndex", 0) - _FIRST_PROGRAM
    wait = cell.get("transmission", {}).get("turnsUntilSpawn", 0)
    return [
        *(float(enemy.get("type") == name) for name in ENEMIES),
        enemy.get("hp", 0) / 3,
        float(enemy.get("isStunned", False)),
        float(enemy.get("spawnedFromSiphon", False)),
        *(float(kind == name) for name in ("data", "program", "question")),
        block.get("points", 0) / 9,
        float(block.get("isSiphoned", False)),
        *(float(program == number) for number in range(_PROGRAMS)),
        block.get("transmissionSpawnCount", 0) / 9,
        min(wait, _LONGEST_WAIT) / _LONGEST_WAIT,
        cell.get("credits", 0) / 3,
        cell.get("energy", 0) / 3,
        float(cell["isDataSiphon"]),
        float(cell["isExit"]),
        float(cell["siphonCenter"]),
    ]
