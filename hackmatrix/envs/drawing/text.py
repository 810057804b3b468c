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
    """Returns the board, and below it what the player has."""
    return "\n".join([*board(seen, colour), *status(seen)]) + "\n"


def board(seen: Mapping[str, Any], colour: bool = True, is_ruled: bool = True) -> list[str]:
    """Returns the lines of the board: row 5 is on top, and rows and columns are numbered. Without
    rules between the rows they are five fewer.
    """
    size = len(seen["cells"])
    rule = paint("+".join(["", *["-" * _WIDTH] * size, ""]), LINES, colour)
    bar = paint("|", LINES, colour)
    lines = [rule]
    for row in reversed(seen["cells"]):
        for part in (_occupant, _ground):
            words = [_in_cell(cell, *part(seen, cell), colour) for cell in row]
            number = f" {row[0]['row']}" if part is _occupant else ""
            lines.append(bar + bar.join(words) + bar + paint(number, FAINT, colour))
        if is_ruled or row is seen["cells"][0]:
            lines.append(rule)
    columns = "".join(str(number).center(_WIDTH + 1) for number in range(size))
    return [*lines, paint(f" {columns.rstrip()}", FAINT, colour)]


def _occupant(seen: Mapping[str, Any], cell: Json) -> tuple[str, Colour]:
    """Returns the player, enemy or transmission in a cell, with its colour."""
    if is_player(seen, cell):
        return "@", COLOURS["player"]
    if "enemy" in cell:
        enemy = cell["enemy"]
        mark = "~" if enemy["isStunned"] else " "
        return f"{enemy['type']}{mark}{enemy['hp']}", COLOURS[enemy["type"]]
    if "transmission" in cell:
        signal = cell["transmission"]
        turns = f">{signal['turnsUntilSpawn']}"
        kind = signal.get("enemyType", "signal")[: _WIDTH - len(turns)]
        return kind + turns, COLOURS["transmission"]
    return "", INK


def _ground(seen: Mapping[str, Any], cell: Json) -> tuple[str, Colour]:
    """Returns the block, exit, data siphon or resources in a cell, with their colour."""
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
    return paint(words.center(_WIDTH), ink, colour, background(cell))


def paint(words: str, ink: Colour, colour: bool, ground: Colour | None = None) -> str:
    if not colour or not words:
        return words
    behind = "" if ground is None else f";48;2;{';'.join(map(str, ground))}"
    return f"\x1b[38;2;{';'.join(map(str, ink))}{behind}m{words}\x1b[0m"
