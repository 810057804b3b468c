"""The board as a picture, from what the headless protocol shows of it.

Drawn in big pixels: sprites of 8 by 8 and letters of 3 by 5, on cells of 24 by 24.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hackmatrix.envs.drawing import looks
from hackmatrix.envs.drawing.looks import COLOURS, FAINT, INK, LINES, Colour
from hackmatrix.envs.headless.view import Json
from hackmatrix.game.cells import SIZE

PIXEL = 3
_CELL = 24
_PITCH = _CELL + 1
_BOARD = SIZE * _PITCH + 1
_LINE = 7
_STATUS_LINES = 7

# Five rows of three pixels each, as octal digits.
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz+-_/?^"
_ROWS = (
    "755572622771747717175571174717747577112275757757172575565656344436555674647746443455355755"
    "722271115255655444475775565555255526564425563656553421672222555575555255775552555522271247"
    "027200070000007112447120225000"
)
_LETTERS = {letter: _ROWS[5 * place : 5 * place + 5] for place, letter in enumerate(_ALPHABET)}
# Eight rows of eight pixels each, a byte a row.
_SPRITES = {
    "player": "3c3c187ebd3c2466",
    "virus": "995a3cdbdb3c5a99",
    "daemon": "81c3ff99ff7e5a24",
    "glitch": "e63cc7781ee33c67",
    "cryptog": "3c7edbdbffffdb49",
    "transmission": "4299a5995a18183c",
    "siphon": "18187e3c188181ff",
    "exit": "03030f0f3f3fffff",
    "credits": "3c4299a1a199423c",
    "energy": "0e1c387e1c386040",
}


def picture(seen: Mapping[str, Any]) -> np.ndarray:
    """u8[606, 453, 3]: the board with row 5 on top, and what the player has below it."""
    canvas = np.empty((_BOARD + 2 + _LINE * _STATUS_LINES, _BOARD, 3), np.uint8)
    canvas[:] = looks.FLOOR
    canvas[:_BOARD] = LINES
    for row in seen["cells"]:
        for cell in row:
            top, left = 1 + _PITCH * (SIZE - 1 - cell["row"]), 1 + _PITCH * cell["col"]
            _draw_cell(canvas[top : top + _CELL, left : left + _CELL], seen, cell)
    for number, line in enumerate(looks.status(seen)[:_STATUS_LINES]):
        _write(canvas, _BOARD + 2 + _LINE * number, 2, line, INK)
    return canvas.repeat(PIXEL, 0).repeat(PIXEL, 1)


def _draw_cell(area: np.ndarray, seen: Mapping[str, Any], cell: Json) -> None:
    area[:] = looks.background(cell)
    has_means = "credits" in cell or "energy" in cell
    if "block" in cell and not (has_means and "enemy" in cell):  # no room for all three
        _draw_block(area, cell["block"], "enemy" in cell)
    _draw_ground(area, cell)
    if "transmission" in cell:
        signal = cell["transmission"]
        _draw_occupant(area, "transmission", signal["turnsUntilSpawn"])
        if not has_means:
            _write(area, 18, 1, signal.get("enemyType", ""), COLOURS["transmission"])
    if "enemy" in cell:
        enemy = cell["enemy"]
        _draw_occupant(area, enemy["type"], enemy["hp"], enemy["isStunned"])
    if looks.is_player(seen, cell):
        _draw_occupant(area, "player", seen["playerHP"])


def _draw_block(area: np.ndarray, block: Json, is_trodden: bool) -> None:
    label = looks.block_label(block)
    _write(area, 18 if is_trodden else 9, (_CELL + 1 - 4 * len(label)) // 2, label, INK)
    spawn = block.get("transmissionSpawnCount")
    if spawn and not is_trodden:
        _write(area, 18, 15, f"^{spawn}", COLOURS["transmission"])


def _draw_ground(area: np.ndarray, cell: Json) -> None:
    for name, is_there in (("exit", cell["isExit"]), ("siphon", cell["isDataSiphon"])):
        if is_there:
            _stamp(area, 0, 4, name, COLOURS[name], 2)
    if cell["siphonCenter"]:
        area[[1, 1, -2, -2], [1, -2, 1, -2]] = FAINT
    for name in ("credits", "energy"):
        if name in cell:
            _stamp(area, 16, 2, name, COLOURS[name], 1)
            _write(area, 18, 12, str(cell[name]), COLOURS[name])


def _draw_occupant(area: np.ndarray, name: str, points: int, is_stunned: bool = False) -> None:
    """Draws a sprite, and at its side a dot for each hit point (or turn to wait), at most 5."""
    _stamp(area, 0, 3, name, FAINT if is_stunned else COLOURS[name], 2)
    for number in range(min(points, 5)):
        area[2 + 3 * number : 4 + 3 * number, 21:23] = COLOURS[name]


def _stamp(area: np.ndarray, top: int, left: int, sprite: str, colour: Colour, scale: int) -> None:
    rows = np.frombuffer(bytes.fromhex(_SPRITES[sprite]), np.uint8)
    shape = np.unpackbits(rows[:, None], axis=1).astype(bool).repeat(scale, 0).repeat(scale, 1)
    area[top : top + len(shape), left : left + len(shape)][shape] = colour


def _write(area: np.ndarray, top: int, left: int, words: str, colour: Colour) -> None:
    """Writes words; letters that do not fit are left out."""
    for number, letter in enumerate(words.lower()):
        start = left + 4 * number
        if letter in _LETTERS and start + 3 <= area.shape[1]:
            rows = [
                [int(row) >> 2 & 1, int(row) >> 1 & 1, int(row) & 1] for row in _LETTERS[letter]
            ]
            area[top : top + 5, start : start + 3][np.array(rows, bool)] = colour
