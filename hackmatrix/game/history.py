"""The stack of snapshots that UNDO restores (section 8 of the rules).

Only the newest snapshots are stored, as many as the history has places. A snapshot is packed into
words, because every board writes one in every turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import bits, few, slots
from hackmatrix.game.bits import WORD
from hackmatrix.game.cells import CELLS, HALF, CellSet
from hackmatrix.game.digits import Digits
from hackmatrix.game.fields import Fields
from hackmatrix.game.outline import outlined
from hackmatrix.game.ring import History
from hackmatrix.game.state import (
    BOARD_SETS,
    Board,
    Enemies,
    Player,
    State,
    Transmissions,
)

Array = jax.Array

# The packed words at the start of a snapshot. Its third word, the score, is not packed.
PLAYER = Fields(cell=bits.CELL, hp=bits.HP, data_siphons=bits.DATA_SIPHONS, attack=bits.ATTACK)
RESOURCES = Fields(credits=bits.CREDITS, energy=bits.ENERGY)
OWNED = Fields(owned=bits.OWNED, atk_uses=bits.ATK_USES)
CLOCK = Fields(turn=bits.TURN, enemies=bits.ENTRIES, transmissions=bits.ENTRIES, show=1, calm=1)
COUNTERS = 5

DEEPEST = 1 << 20
_REST = CELLS - WORD  # the bits of a cell set that do not fit into one word
_SETS_A_WORD = WORD // _REST
CELL_WORDS = BOARD_SETS + -(-BOARD_SETS // _SETS_A_WORD)
_ENEMY_WORDS = 2 * bits.LINE + bits.KIND + bits.HP + 2
_TRANSMISSION_WORDS = 2 * bits.LINE + bits.KIND + bits.TURNS
WORDS = COUNTERS + CELL_WORDS + _ENEMY_WORDS + _TRANSMISSION_WORDS


def empty(depth: int, boards: Array) -> History:
    """Returns an empty history for each element of `boards`. It is computed from that array: inside
    shard_map a value that will vary across devices may not start as a constant.
    """
    nothing = jnp.zeros_like(boards, jnp.int32)
    words = jnp.zeros_like(boards, jnp.uint32)[..., None, None]
    return History(jnp.broadcast_to(words, (*boards.shape, depth, WORDS)), nothing, nothing)


@outlined
def push(state: State, active: Array) -> State:
    """Pushes a snapshot of each active board onto its history; a full history drops its oldest."""
    return state.replace(history=state.history.pushed(pack(state), active))


def undo(state: State, active: Array) -> State:
    """Pops the newest snapshot of each active board off its history and restores it."""
    restored = unpack(state.history.newest, state)
    restored = restored.replace(turn=_whole(restored.turn, state.turn))
    before = state.replace(history=None)
    after = jax.tree.map(lambda new, old: few.select(active, new, old), restored, before)
    return after.replace(history=state.history.taken(active))


def _whole(turn: Array, now: Array) -> Array:
    """Returns the turn of a snapshot, which stores only its lowest bits: the last turn up to now
    that ends in these. If there is none, the snapshot is from an earlier stage, and these bits are
    the turn (or what is left of it, if that stage lasted for over 65,535 turns).
    """
    found = now - ((now - turn) & np.int32(CLOCK["turn"].mask))
    return jnp.where(found < 0, turn, found)


def pack(state: State) -> list[Array]:
    """Returns a snapshot of the state, as WORDS words."""
    player, enemies, transmissions = state.player, state.enemies, state.transmissions
    counters = [
        PLAYER.pack(
            cell=player.cell, hp=player.hp, data_siphons=player.data_siphons, attack=player.attack
        ),
        RESOURCES.pack(credits=player.credits, energy=player.energy),
        player.score,
        OWNED.pack(owned=state.owned, atk_uses=state.atk_uses),
        CLOCK.pack(
            turn=state.turn & np.int32(CLOCK["turn"].mask), enemies=slots.count(enemies.present),
            transmissions=slots.count(transmissions.present), show=state.show, calm=state.calm,
        ),
    ]  # fmt: skip
    lists = [
        *enemies.row, *enemies.column, *enemies.kind, *enemies.hp,
        enemies.disabled, enemies.stunned,
        *transmissions.row, *transmissions.column, *transmissions.kind, *transmissions.turns,
    ]  # fmt: skip
    sets = jax.tree.leaves(state.board, is_leaf=lambda node: isinstance(node, CellSet))
    words = [*counters, *pack_cells(sets), *lists]
    return [word.astype(jnp.uint32) for word in words]


def unpack(words: Any, state: State) -> State:
    """Returns the state with all that the snapshot holds restored, and without its history."""
    remaining = iter(words)

    def several(number: int) -> Digits[Array]:
        return tuple(next(remaining) for _ in range(number))

    who, resources, score, programs, clock = several(COUNTERS)
    board = Board.of(unpack_cells(several(CELL_WORDS)))
    counted, owned = CLOCK.unpack(clock), OWNED.unpack(programs)
    no_flags = jnp.zeros_like(who)
    enemies = Enemies(
        present=slots.below(counted["enemies"]),
        row=several(bits.LINE),
        column=several(bits.LINE),
        kind=several(bits.KIND),
        hp=several(bits.HP),
        disabled=next(remaining),
        stunned=next(remaining),
        from_siphon=no_flags,
        from_schedule=no_flags,
    )
    transmissions = Transmissions(
        present=slots.below(counted["transmissions"]),
        row=several(bits.LINE),
        column=several(bits.LINE),
        kind=several(bits.KIND),
        turns=several(bits.TURNS),
        from_siphon=no_flags,
        from_schedule=no_flags,
    )
    player = Player(
        **PLAYER.unpack(who), **RESOURCES.unpack(resources), score=score.astype(jnp.int32)
    )
    return state.replace(
        player=player,
        board=board,
        enemies=enemies,
        transmissions=transmissions,
        turn=counted["turn"],
        show=counted["show"] != 0,
        calm=counted["calm"] != 0,
        owned=owned["owned"].astype(jnp.uint32),
        atk_uses=owned["atk_uses"],
        history=None,
    )


def pack_cells(sets: list[CellSet]) -> list[Array]:
    """Packs 32 of the 36 bits of each set into a word, then the last 4 bits of 8 sets per word."""
    words = [cells.low | cells.high << np.uint32(HALF) for cells in sets]
    for start in range(0, len(sets), _SETS_A_WORD):
        rest = jnp.uint32(0)
        for place, cells in enumerate(sets[start : start + _SETS_A_WORD]):
            rest = rest | cells.high >> np.uint32(HALF - _REST) << np.uint32(_REST * place)
        words.append(rest)
    return words


def unpack_cells(words: Digits[Array]) -> Iterator[CellSet]:
    """Yields the BOARD_SETS sets that these words hold."""
    for number, word in enumerate(words[:BOARD_SETS]):
        which, place = divmod(number, _SETS_A_WORD)
        rest = words[BOARD_SETS + which] >> np.uint32(_REST * place)
        top = rest & np.uint32(bits.greatest(_REST))
        low = word & np.uint32(bits.greatest(HALF))
        yield CellSet(low, word >> np.uint32(HALF) | top << np.uint32(HALF - _REST))
