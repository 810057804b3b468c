"""Former layouts of states, as older checkpoints hold them, and their conversion to today's.

There are two. In the later one a history has 4 places: `shallow_layout` describes the states to
restore, and `deepened` converts them. In the earlier one, besides, a cell holds at most 3 credits
or energy, in two digits each, and a snapshot packs its flags with the programs owned:
`older_layout` and `upgraded`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.game import history
from hackmatrix.game.cells import CellSet
from hackmatrix.game.digits import Digits, nonzero
from hackmatrix.game.fields import Fields
from hackmatrix.game.state import HISTORY_DEPTH, Board, State

Array = jax.Array

_FORMER_DEPTH = 4
_OWNED = Fields(owned=23, show=1, calm=1, atk_uses=7)
_CLOCK = Fields(turn=16, enemies=6, transmissions=6)


class OlderBoard(struct.PyTreeNode):
    """What the cells hold, in the earlier of the former layouts."""

    data: CellSet
    program: CellSet
    question: CellSet
    data_siphon: CellSet
    exit: CellSet
    siphoned: CellSet
    centre: CellSet
    label: Digits[CellSet]
    spawn: Digits[CellSet]
    credits: Digits[CellSet]
    energy: Digits[CellSet]


class OlderState(State):
    """A state in the earlier of the former layouts."""

    board: Any  # an OlderBoard


def shallow_layout(states: State) -> State:
    """Turns a description of states (shapes, dtypes, shardings) into one of states with room for
    4 snapshots.
    """
    whole = states.history.snapshots
    fewer = jax.ShapeDtypeStruct(
        (*whole.shape[:-2], _FORMER_DEPTH, whole.shape[-1]),
        whole.dtype,
        sharding=getattr(whole, "sharding", None),
    )
    return states.replace(history=states.history.replace(snapshots=fewer))


def deepened(shallow: State) -> State:
    """Returns the states with room for HISTORY_DEPTH snapshots; any batch shape."""
    return shallow.replace(history=shallow.history.with_places(HISTORY_DEPTH))


def older_layout(states: State) -> OlderState:
    """Turns a description of states into one of the earlier layout, also with 4 snapshots."""
    states = shallow_layout(states)
    board = _held(states.board)
    digits = (*board.pop("amount"), board.pop("energy"))
    older = OlderBoard(**board, credits=digits[:2], energy=digits[2:])
    return OlderState(**{**_held(states), "board": older})


def upgraded(older: OlderState) -> State:
    """Converts states of the earlier layout to today's; any batch shape."""
    return deepened(_upgraded_boards(older))


def _upgraded_boards(older: OlderState) -> State:
    board = _held(older.board)
    amount, energy = _resources(board.pop("credits"), board.pop("energy"))
    snapshots = older.history.snapshots
    new = {
        "board": Board(**board, amount=amount, energy=energy),
        "history": older.history.replace(snapshots=_upgraded_snapshots(snapshots)),
    }
    return State(**{**_held(older), **new})


def _held(node: Any) -> dict[str, Any]:
    return {field.name: getattr(node, field.name) for field in fields(node)}


def _resources(
    credits: Digits[CellSet], energy: Digits[CellSet]
) -> tuple[Digits[CellSet], CellSet]:
    """Returns the amounts in the cells, in three digits, and the cells where they are energy."""
    low, high = (one | other for one, other in zip(credits, energy, strict=True))
    return (low, high, jax.tree.map(jnp.zeros_like, low)), nonzero(energy)


def _upgraded_snapshots(snapshots: Array) -> Array:
    """Converts snapshots [..., words]: moves their flags and resources to today's fields."""
    words = list(jnp.moveaxis(snapshots, -1, 0))
    player, resources, score, programs, clock = words[: history.COUNTERS]
    rest = words[history.COUNTERS :]
    counted, owned = _CLOCK.unpack(clock), _OWNED.unpack(programs)
    counters = [
        player,
        resources,
        score,
        history.OWNED.pack(owned=owned["owned"], atk_uses=owned["atk_uses"]),
        history.CLOCK.pack(**counted, show=owned["show"], calm=owned["calm"]),
    ]
    *sets, low_credits, high_credits, low_energy, high_energy = history.unpack_cells(
        tuple(rest[: history.CELL_WORDS])
    )
    amount, energy = _resources((low_credits, high_credits), (low_energy, high_energy))
    cells = history.pack_cells([*sets, *amount, energy])
    return jnp.stack([*counters, *cells, *rest[history.CELL_WORDS :]], axis=-1)
