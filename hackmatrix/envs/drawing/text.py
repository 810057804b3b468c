"""The board as text for a terminal, from what the headless protocol shows of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hackmatrix.envs.drawing.looks import (
    COLOURS,
    FAINT,
    INK,
    LINES,
    Colour,
    background,
    block_label,
    is_player,
    status,
)
from hackmatrix.envs.headless.view import Json

_WIDTH = 9


def text(seen: Mapping[str, Any], colour: bool = True) -> str:
    """The board with row 5 on top, and the player's means below it."""
    rule = _paint("+".join(["", *["-" * _WIDTH] * len(seen["cells"]), ""]), LINES, None, colour)
    bar = _paint("|", LINES, None, colour)
    lines = [rule]
    for row in reversed(seen["cells"]):
        for part in (_occupant, _ground):
            words = [_in_cell(cell, *part(seen, cell), colour) for cell in row]
            lines.append(bar + bar.join(words) + bar)
        lines.append(rule)
    return "\n".join([*lines, *status(seen)]) + "\n"


def _occupant(seen: Mapping[str, Any], cell: Json) -> tuple[str, Colour]:
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
