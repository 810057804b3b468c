"""Invariants of the state after every action of a game that had not ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from hackmatrix.game.cells import CellSet

Tree = Any


def faults(states: Tree) -> Iterator[str]:
    """Names the invariants that the states, of any batch shape, violate."""
    player, board, history = states.player, states.board, states.history
    places = history.snapshots.shape[-2]
    ranges = {
        "cell": (player.cell, 0, 35), "hp": (player.hp, 0, 3), "credits": (player.credits, 0, 999),
        "energy": (player.energy, 0, 999), "data siphons": (player.data_siphons, 0, 99),
        "attack": (player.attack, 1, 99), "score": (player.score, 0, 9999),
        "stage": (states.stage, 1, 9), "turn": (states.turn, 0, 9999),
        "exit": (states.exit_cell, 0, 35), "owned": (states.owned, 0, (1 << 23) - 1),
        "ATK+ uses": (states.atk_uses, 0, 9), "pending": (states.pending, 0, 99),
        "interval": (states.interval, 4, 12), "next task": (states.next_task, 0, 9999),
        "depth": (history.depth, 0, places), "head": (history.head, 0, places - 1),
    }  # fmt: skip
    for name, (values, low, high) in ranges.items():
        if (values < low).any() or (values > high).any():
            yield name
    for name, entries in (("enemies", states.enemies), ("transmissions", states.transmissions)):
        present = entries.present
        if (present & (present + np.uint32(1))).any():
            yield f"holes in the {name}"
        if any((word & ~present).any() for word in jax.tree.leaves(entries)):
            yield f"something in empty slots of the {name}"
        for digits in (entries.row, entries.column):
            if (digits[1] & digits[2]).any():
                yield f"{name} off the board"
    low, high = states.enemies.hp
    kind = states.enemies.kind
    if (states.enemies.present & ~(low | high)).any():
        yield "dead enemies"
    if (low & high & ~(kind[0] & ~kind[1])).any():
        yield "enemies with more hp than their type has"
    if any((word >> 18).any() for word in jax.tree.leaves(board)):
        yield "cells off the board"
    contents = [board.data, board.program, board.data_siphon, board.exit]
    if overlap(contents):
        yield "two contents in a cell"
    blocks = board.data | board.program
    if outside(board.question, blocks) or any(
        outside(digit, blocks) for digit in (*board.label, *board.spawn)
    ):
        yield "blocks' contents without a block"
    low, middle, high = board.amount
    if outside(board.energy, low | middle | high):
        yield "energy in a cell that holds nothing"


def overlap(sets: list[CellSet]) -> bool:
    seen, *others = sets
    for each in others:
        if np.any((seen & each).low) or np.any((seen & each).high):
            return True
        seen = seen | each
    return False


def outside(inner: CellSet, outer: CellSet) -> bool:
    return bool(np.any(inner.low & ~outer.low) or np.any(inner.high & ~outer.high))
