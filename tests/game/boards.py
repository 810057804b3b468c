"""Generated boards: any contents that the rules allow, also those that are rare in play."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

State = dict[str, Any]

SIZE = 6
CELLS = SIZE * SIZE
PROGRAMS = 23
SNAPSHOT = [
    *("player", "turn", "cells", "enemies", "transmissions", "owned", "show", "calm", "atk_uses"),
]
MOST_HP = (2, 3, 2, 2)
DEEPEST_HISTORY = 4

FLAGS = {"c": 0, "e": 0, "s": 0, "m": 0}

# Every cell and every entry is a single draw from a table: else a batch would take too many.
_RESOURCES = [(0, 0), *((n, 0) for n in range(1, 8)), *((0, n) for n in range(1, 8))]
_FLAGS = [
    {"c": c, "e": e, "s": s, "m": m}
    for (c, e), s, m in itertools.product(_RESOURCES, (0, 1), (0, 1))
]
_UNSIPHONED = [flags for flags in _FLAGS if not flags["s"]]
_OPEN = [[kind, flags] for kind in ".S" for flags in _FLAGS]
_DATA = [["D", n, spawn] for n in (*range(1, 10), 16, 31) for spawn in {0, 1, min(n, 15)}]
_PROGRAM = [["P", program, spawn] for program in range(PROGRAMS) for spawn in (0, 2, 8)]
_BLOCKS = [[*block, flags] for block in _DATA + _PROGRAM for flags in _FLAGS[::3]]
_HIDDEN = [
    [f"Q{kind}", label, spawn, flags]
    for kind, label, spawn in _DATA + _PROGRAM
    for flags in _UNSIPHONED[::5]
]
_POSITIONS = [[row, column] for row in range(SIZE) for column in range(SIZE)]
_ENEMIES = [
    [kind, *position, hp, *flags]
    for kind, most in enumerate(MOST_HP)
    for position in _POSITIONS
    for hp in range(1, most + 1)
    for flags in itertools.product((0, 1), repeat=4)
]
_TRANSMISSIONS = [
    [*position, turns, kind, *flags]
    for position in _POSITIONS
    for turns in (0, 1, 2, 3, 7)
    for kind in range(4)
    for flags in itertools.product((0, 1), repeat=2)
]

_HP_CREDITS_ENERGY_SIPHONS_ATTACK_SCORE = ((1, 3), (0, 12), (0, 12), (0, 3), (1, 4), (0, 60))

_open = st.sampled_from(_OPEN)
_cell = st.one_of(_open, _open, _open, st.sampled_from(_BLOCKS), st.sampled_from(_HIDDEN))
_position = st.sampled_from(_POSITIONS)
_bit = st.integers(0, 1)


def plain() -> State:
    """A board with nothing but an exit, an enemy and a transmission."""
    cells: list[list[Any]] = [[".", dict(FLAGS)] for _ in range(36)]
    cells[5] = ["X", dict(FLAGS)]
    return {
        "player": [0, 0, 3, 5, 6, 1, 1, 10], "stage": 1, "turn": 0, "exit": [0, 5], "cells": cells,
        "enemies": [[1, 3, 3, 3, 0, 0, 0, 0]], "transmissions": [[4, 4, 1, 0, 0, 0]], "owned": [5],
        "show": 0, "calm": 0, "step": 0, "atk_uses": 0, "pending": 0, "interval": 12,
        "next_task": 12, "history_depth": 0, "history": [],
    }  # fmt: skip


@st.composite
def board(draw: st.DrawFn) -> State:
    """A board without a history. Enemies and transmissions may share cells, also the player's."""
    player = [
        *draw(_position),
        *(draw(st.integers(*limits)) for limits in _HP_CREDITS_ENERGY_SIPHONS_ATTACK_SCORE),
    ]
    cells = draw(st.lists(_cell, min_size=CELLS, max_size=CELLS))
    # The exit among the cells is not always at the exit's position: UNDO restores only the cells.
    exits = draw(st.lists(_position, min_size=1, max_size=2))
    for row, column in exits[draw(st.sampled_from([0, 0, 0, 1])) :]:
        cells[SIZE * row + column] = ["X", cells[SIZE * row + column][-1]]
    return {
        "player": player,
        "stage": draw(st.integers(1, 8)),
        "turn": draw(st.integers(0, 30)),
        "exit": exits[0],
        "cells": cells,
        "enemies": draw(st.lists(st.sampled_from(_ENEMIES), max_size=10)),
        "transmissions": draw(st.lists(st.sampled_from(_TRANSMISSIONS), max_size=6)),
        "owned": sorted(draw(st.sets(st.integers(0, PROGRAMS - 1)))),
        "show": draw(_bit),
        "calm": draw(_bit),
        "step": draw(st.sampled_from([0, 0, 0, 1])),
        "atk_uses": draw(st.integers(0, 3)),
        "pending": draw(st.sampled_from([0, 0, 1, 5])),
        "interval": draw(st.integers(4, 12)),
        "next_task": draw(st.integers(0, 40)),
    }


def snapshot(state: State) -> State:
    """The snapshot of a board, as the history holds it."""
    taken = {name: state[name] for name in SNAPSHOT}
    for name in ("enemies", "transmissions"):
        taken[name] = [[*entry[:-2], 0, 0] for entry in state[name]]
    return taken


@st.composite
def batches(draw: st.DrawFn, number: int) -> list[State]:
    """Boards, each with snapshots of up to 4 of the others as its history."""
    made = draw(st.lists(board(), min_size=number, max_size=number))
    depths = draw(st.lists(st.integers(0, DEEPEST_HISTORY), min_size=number, max_size=number))
    return [
        {
            **state,
            "history_depth": depth,
            "history": [snapshot(made[(index + 1 + age) % number]) for age in range(depth)],
        }
        for index, (state, depth) in enumerate(zip(made, depths, strict=True))
    ]
