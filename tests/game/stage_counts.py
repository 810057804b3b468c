"""Counts what generated boards contain, in the families of golden/stages.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
from golden import State

Counts = dict[str, Counter[str]]

SIZE = 6
CORNERS = [(0, 0), (0, 5), (5, 0), (5, 5)]
POSITIONS = [(row, column) for row in range(SIZE) for column in range(SIZE)]
NEIGHBOURS = {
    (row, column): {each for each in POSITIONS if abs(each[0] - row) + abs(each[1] - column) == 1}
    for row, column in POSITIONS
}
DATA, PROGRAMS = ("D", "QD"), ("P", "QP")
BLOCKS = (*DATA, *PROGRAMS)
RARE = 10  # values seen less often than this, in both samples together, are pooled


def count(boards: Iterable[State]) -> Counts:
    counts: Counts = {}
    for board in boards:
        for family, value in _values(board):
            counts.setdefault(family, Counter())[value] += 1
    return counts


def p_value(some: Counter[str], others: Counter[str]) -> float:
    """The probability of counts this different if the distributions are equal (chi-square)."""
    from scipy.stats import chi2_contingency  # slow, and each process imports this module

    table = np.array([[some[key], others[key]] for key in some.keys() | others.keys()])
    rare = table.sum(1) < RARE
    table = np.vstack([table[~rare], table[rare].sum(0)])
    table = table[table.sum(1) > 0]
    return float(chi2_contingency(table).pvalue) if len(table) > 1 else 1.0


def faults(board: State) -> Iterator[str]:
    """Names what is wrong with a board at the start of a stage."""
    cells = board["cells"]
    player = tuple(board["player"][:2])
    exit_cell = tuple(board["exit"])
    others = {tuple(each[:2]) for each in board["transmissions"]}
    others |= {tuple(each[1:3]) for each in board["enemies"]}
    programs = [cell[1] for cell in cells if cell[0] in PROGRAMS]
    blocks = {divmod(index, SIZE) for index, cell in enumerate(cells) if cell[0] in BLOCKS}

    for corner in CORNERS:
        kind = "." if corner == player else "X" if corner == exit_cell else "S"
        if cells[corner[0] * SIZE + corner[1]][0] != kind:
            yield f"corner {corner} is not {kind!r}"
    if player == exit_cell:
        yield "the exit is where the player stands"
    if len(set(programs)) < len(programs):
        yield "two blocks have the same program"
    if any(cell[1] != cell[2] for cell in cells if cell[0] in DATA):
        yield "a data block's spawn is not its points"
    if any(cell[-1]["s"] or cell[-1]["m"] for cell in cells):
        yield "a cell is marked already"
    if any(cell[-1]["c"] and cell[-1]["e"] for cell in cells):
        yield "a cell has credits and energy"
    if any((cell[-1]["c"] + cell[-1]["e"] > 0) != (cell[0] in ".S") for cell in cells):
        yield "not every cell without block and exit, or not only these, has a resource"
    if blocks & others:
        yield "an enemy or transmission is on a block"
    if not _is_accepted(blocks, exit_cell):
        yield f"the layout cannot be accepted: {sorted(blocks)}"
    if board["turn"] or board["next_task"] != board["interval"]:
        yield "the clock does not start anew"
    if any(board[name] for name in ("show", "calm", "step", "atk_uses")):
        yield "a program of the last stage is still at work"


def _values(board: State) -> Iterator[tuple[str, str]]:
    row, column, _, credits, energy, siphons, *_ = board["player"]
    exit_row, exit_column = board["exit"]
    yield "corner", f"{row},{column}"
    yield "bonus", f"{credits},{energy},{siphons}"
    yield "exit_given_corner", f"{row},{column}->{exit_row},{exit_column}"
    yield "block_count", str(sum(cell[0] in BLOCKS for cell in board["cells"]))
    yield "trans_count", str(len(board["transmissions"]))
    for index, cell in enumerate(board["cells"]):
        yield from _values_of_cell(index, cell)
    for trans_row, trans_column, _, kind, *_ in board["transmissions"]:
        yield "trans_cell", str(trans_row * SIZE + trans_column)
        yield "trans_type", str(kind)
        yield "trans_in_cross_of_player", str(int(trans_row == row or trans_column == column))


def _values_of_cell(index: int, cell: list) -> Iterator[tuple[str, str]]:
    kind, content = cell[0], cell[-1]
    if kind in BLOCKS:
        yield "block_cell", str(index)
        yield "kind", kind
    if kind in DATA:
        yield "points", str(cell[1])
    if kind in PROGRAMS:
        yield "program", str(cell[1])
        yield "program_spawn", f"{cell[1]}:{cell[2]}"
    if kind == "S":
        yield "siphon_cells", str(index)
    for name in ("c", "e"):
        if content[name]:
            yield f"amount_{name}", str(content[name])
    if kind not in BLOCKS and not content["c"] and not content["e"]:
        yield "amount_zero_nonblock", kind


def _is_accepted(blocks: set[tuple[int, int]], exit_cell: tuple[int, int]) -> bool:
    open_cells = NEIGHBOURS.keys() - blocks
    start = min(open_cells)
    reached, frontier = {start}, [start]
    while frontier:
        cell = frontier.pop()
        if cell == start or cell != exit_cell:
            new = NEIGHBOURS[cell] - blocks - reached
            reached |= new
            frontier += new
    return reached == open_cells and not any(NEIGHBOURS[block] <= blocks for block in blocks)
