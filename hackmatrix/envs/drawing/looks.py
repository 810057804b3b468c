"""Colours, labels and status lines of a board, the same in text and in pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from hackmatrix.envs.headless.view import Json
from hackmatrix.game.programs import PROGRAMS
from hackmatrix.game.state import FIRST_PROGRAM, MAX_HP

Colour = tuple[int, int, int]

INK: Colour = (214, 222, 235)
FAINT: Colour = (98, 112, 138)
FLOOR: Colour = (16, 20, 30)
LINES: Colour = (44, 54, 74)
COLOURS: dict[str, Colour] = {
    "player": (126, 231, 135),
    "virus": (255, 107, 107),
    "daemon": (255, 146, 72),
    "glitch": (247, 120, 186),
    "cryptog": (190, 149, 255),
    "transmission": (236, 208, 110),
    "data": (34, 72, 110),
    "program": (26, 94, 84),
    "question": (84, 66, 112),
    "siphoned": (52, 56, 66),
    "siphon": (121, 192, 255),
    "exit": (126, 231, 135),
    "credits": (242, 204, 96),
    "energy": (110, 210, 255),
}
ALL = {**COLOURS, "ink": INK, "floor": FLOOR, "lines": LINES, "faint": FAINT}
_FLAGS = {"show": "showActivated", "calm": "scheduledTasksDisabled"}
_STATUS_WIDTH = 37


def status(seen: Mapping[str, Any]) -> list[str]:
    """Returns a few lines about what the player has."""
    names = [PROGRAMS[action - FIRST_PROGRAM] for action in seen["ownedPrograms"]]
    flags = [name for name, key in _FLAGS.items() if seen[key]]
    return [
        f"stage {seen['stage']}  turn {seen['turn']}  score {seen['score']}  {' '.join(flags)}",
        f"hp {seen['playerHP']}/{MAX_HP}  credits {seen['credits']}  energy {seen['energy']}",
        f"siphons {seen['dataSiphons']}  attack {seen['baseAttack']}",
        *textwrap.wrap(" ".join(names), _STATUS_WIDTH, break_on_hyphens=False),
    ]


def background(cell: Json) -> Colour:
    block = cell.get("block")
    if not block:
        return FLOOR
    return COLOURS["siphoned" if block["isSiphoned"] else block["blockType"]]


def block_label(block: Json) -> str:
    """Returns the points of a data block, the name of a program, or "?" for a question block."""
    if block["blockType"] == "question":
        return "?"
    return str(block["points"]) if block["blockType"] == "data" else block["programType"]


def is_player(seen: Mapping[str, Any], cell: Json) -> bool:
    return (cell["row"], cell["col"]) == (seen["playerRow"], seen["playerCol"])
