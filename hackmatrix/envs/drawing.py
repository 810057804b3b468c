"""The board as text for a terminal, from what the headless protocol shows of it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from hackmatrix.envs.headless_view import Json
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
_WIDTH = 9
_STATUS_WIDTH = 37


def text(seen: Mapping[str, Any], colour: bool = True) -> str:
    """The board with row 5 on top, and the player's means below it."""
    rule = _paint("+".join(["", *["-" * _WIDTH] * len(seen["cells"]), ""]), LINES, None, colour)
    bar = _paint("|", LINES, None, colour)
    lines = [rule]
    for row in reversed(seen["cells"]):
        for part in (_being, _ground):
            words = [_in_cell(cell, *part(seen, cell), colour) for cell in row]
            lines.append(bar + bar.join(words) + bar)
        lines.append(rule)
    return "\n".join([*lines, *status(seen)]) + "\n"


def status(seen: Mapping[str, Any]) -> list[str]:
    """What the player has, in a few lines."""
    names = [PROGRAMS[action - FIRST_PROGRAM] for action in seen["ownedPrograms"]]
    flags = [name for name, key in (("show", "showActivated"), ("calm", "scheduledTasksDisabled"))
             if seen[key]]  # fmt: skip
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
    """The points of a data block, the name of a program."""
    if block["blockType"] == "question":
        return "?"
    return str(block["points"]) if block["blockType"] == "data" else block["programType"]


def is_player(seen: Mapping[str, Any], cell: Json) -> bool:
    return (cell["row"], cell["col"]) == (seen["playerRow"], seen["playerCol"])


def _being(seen: Mapping[str, Any], cell: Json) -> tuple[str, Colour]:
    """Who is in a cell, or soon will be."""
    if is_player(seen, cell):
        return "@", COLOURS["player"]
    if "enemy" in cell:
        enemy = cell["enemy"]
        mark = "~" if enemy["isStunned"] else " "
        return f"{enemy['type']}{mark}{enemy['hp']}", COLOURS[enemy["type"]]
    if "transmission" in cell:
        signal = cell["transmission"]
        words = f"{signal.get('enemyType', 'signal')}>{signal['turnsUntilSpawn']}"
        return words, COLOURS["transmission"]
    return "", INK


def _ground(seen: Mapping[str, Any], cell: Json) -> tuple[str, Colour]:
    """What a cell holds."""
    if "block" in cell:
        spawn = cell["block"].get("transmissionSpawnCount")
        return block_label(cell["block"]) + (f" ^{spawn}" if spawn else ""), INK
    found = [f"{cell[name]}{name[0]}" for name in ("credits", "energy") if name in cell]
    if cell["isExit"]:
        return " ".join(["exit", *found]), COLOURS["exit"]
    if cell["isDataSiphon"]:
        return " ".join(["siphon", *found]), COLOURS["siphon"]
    if found:
        return found[0], COLOURS["credits" if "credits" in cell else "energy"]
    return ("o" if cell["siphonCenter"] else ""), FAINT


def _in_cell(cell: Json, words: str, ink: Colour, colour: bool) -> str:
    return _paint(words.center(_WIDTH), ink, background(cell), colour)


def _paint(words: str, ink: Colour, ground: Colour | None, colour: bool) -> str:
    if not colour:
        return words
    behind = "" if ground is None else f";48;2;{';'.join(map(str, ground))}"
    return f"\x1b[38;2;{';'.join(map(str, ink))}{behind}m{words}\x1b[0m"
