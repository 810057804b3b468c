"""The stack of snapshots that UNDO restores (section 8 of the rules).

Only the newest snapshots are kept, as many as the history has places. A snapshot is packed into
words, because one is written at every turn of every board.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import slots
from hackmatrix.game.cells import HALF, CellSet
from hackmatrix.game.outline import outlined
from hackmatrix.game.state import Board, Enemies, History, Player, State, Transmissions

Array = jax.Array
_LOW_BITS = 32 - HALF  # of the upper half of a cell set, beside its lower half in one word
_REST = HALF - _LOW_BITS  # the bits of a cell set that do not fit there
_SETS_A_WORD = 32 // _REST
_CELL_SETS = 7 + 5 + 4 + 2 + 2
WORDS = 5 + _CELL_SETS + -(-_CELL_SETS // _SETS_A_WORD) + 12 + 14


def empty(depth: int, batch: tuple[int, ...] = ()) -> History:
    nothing = jnp.zeros(batch, jnp.int32)
    return History(jnp.zeros((*batch, depth, WORDS), jnp.uint32), nothing, nothing)


@outlined
def push(state: State, active: Array) -> State:
    """Puts a snapshot of the active boards onto their histories; the oldest gives way."""
    history = state.history
    depth = history.snapshots.shape[-2]
    place = jnp.where(active, history.head, depth)
    written = (jnp.arange(depth) == place[..., None])[..., None]
    snapshot = jnp.moveaxis(jnp.stack(pack(state)), 0, -1)
    return state.replace(
        history=History(
            jnp.where(written, snapshot[..., None, :], history.snapshots),
            jnp.where(active, (history.head + 1) % depth, history.head),
            jnp.minimum(history.depth + active, depth),
        )
    )


def undo(state: State, active: Array) -> State:
    """Takes the newest snapshot off the history and restores it."""
    history = state.history
    depth = history.snapshots.shape[-2]
    newest = (history.head - 1) % depth
    chosen = jnp.arange(depth) == newest[..., None]
    words = jnp.where(chosen[..., None], history.snapshots, 0).sum(-2, dtype=jnp.uint32)
    restored = unpack(jnp.moveaxis(words, -1, 0), state)
    taken = active.astype(jnp.int32)
    before = state.replace(history=None)
    after = jax.tree.map(lambda new, old: jnp.where(active, new, old), restored, before)
    return after.replace(
        history=History(
            history.snapshots,
            jnp.where(active, newest, history.head),
            history.depth - taken,
        )
    )


def pack(state: State) -> list[Array]:
    """A snapshot as WORDS words."""
    player, enemies, transmissions = state.player, state.enemies, state.transmissions
    stunned_by = player.cell | player.hp << 6 | player.data_siphons << 8 | player.attack << 20
    counters = [
        stunned_by,
        player.credits | player.energy << 16,
        player.score,
        state.owned
        | (state.show.astype(jnp.uint32) << 23)
        | (state.calm.astype(jnp.uint32) << 24)
        | (state.atk_uses.astype(jnp.uint32) << 25),
        state.turn | slots.count(enemies.present) << 16 | slots.count(transmissions.present) << 22,
    ]
    lists = [
        *enemies.row, *enemies.column, *enemies.kind, *enemies.hp,
        enemies.disabled, enemies.stunned,
        *transmissions.row, *transmissions.column, *transmissions.kind, *transmissions.turns,
    ]  # fmt: skip
    words = [*counters, *_pack_cells(state.board), *lists]
    return [word.astype(jnp.uint32) for word in words]


def unpack(words: Any, state: State) -> State:
    """The state with all that a snapshot holds put back, without its history."""
    remaining = iter(words)
    who, purse, score, programs, when = (next(remaining) for _ in range(5))
    board = _unpack_cells(remaining)

    def digits(number: int) -> tuple[Array, ...]:
        return tuple(next(remaining) for _ in range(number))

    no_flags = jnp.zeros_like(who)
    enemies = Enemies(
        present=slots.below(_field(when, 16, 6)),
        row=digits(3), column=digits(3), kind=digits(2), hp=digits(2),
        disabled=next(remaining), stunned=next(remaining),
        from_siphon=no_flags, from_schedule=no_flags,
    )  # fmt: skip
    transmissions = Transmissions(
        present=slots.below(_field(when, 22, 6)),
        row=digits(3), column=digits(3), kind=digits(2), turns=digits(6),
        from_siphon=no_flags, from_schedule=no_flags,
    )  # fmt: skip
    player = Player(
        cell=_field(who, 0, 6), hp=_field(who, 6, 2), credits=_field(purse, 0, 16),
        energy=_field(purse, 16, 16), data_siphons=_field(who, 8, 12), attack=_field(who, 20, 12),
        score=score.astype(jnp.int32),
    )  # fmt: skip
    return state.replace(
        player=player, board=board, enemies=enemies, transmissions=transmissions,
        turn=_field(when, 0, 16), owned=programs & np.uint32((1 << 23) - 1),
        show=_field(programs, 23, 1) != 0, calm=_field(programs, 24, 1) != 0,
        atk_uses=_field(programs, 25, 7), history=None,
    )  # fmt: skip


def _field(word: Array, start: int, width: int) -> Array:
    return (word >> np.uint32(start) & np.uint32((1 << width) - 1)).astype(jnp.int32)


def _pack_cells(board: Board) -> list[Array]:
    """36 bits a set: one word a set, and the last 4 bits of 8 sets in a further word."""
    sets = jax.tree.leaves(board, is_leaf=lambda node: isinstance(node, CellSet))
    words = [cells.low | cells.high << np.uint32(HALF) for cells in sets]
    for start in range(0, _CELL_SETS, _SETS_A_WORD):
        rest = jnp.uint32(0)
        for place, cells in enumerate(sets[start : start + _SETS_A_WORD]):
            rest = rest | cells.high >> np.uint32(_LOW_BITS) << np.uint32(_REST * place)
        words.append(rest)
    return words


def _unpack_cells(words: Iterator[Array]) -> Board:
    first = [next(words) for _ in range(_CELL_SETS)]
    rests = [next(words) for _ in range(-(-_CELL_SETS // _SETS_A_WORD))]
    sets = []
    for number, word in enumerate(first):
        which, place = divmod(number, _SETS_A_WORD)
        top = rests[which] >> np.uint32(_REST * place) & np.uint32((1 << _REST) - 1)
        low = word & np.uint32((1 << HALF) - 1)
        sets.append(CellSet(low, word >> np.uint32(HALF) | top << np.uint32(_LOW_BITS)))
    return Board.of(sets)
