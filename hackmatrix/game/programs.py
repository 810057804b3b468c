"""The 23 programs (section 6 of the rules)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hackmatrix.game import cells, combat, digits, history, slots
from hackmatrix.game.cells import SIZE
from hackmatrix.game.digits import Digits
from hackmatrix.game.outline import outlined
from hackmatrix.game.randomness import Key, Purpose, pick_slot, several, uniform_below, words
from hackmatrix.game.state import (
    ANTI_V,
    ATK,
    CALM,
    COL,
    CRASH,
    CREDIT_COST,
    D_BOM,
    DAEMON,
    DEBUG,
    DELAY,
    ENERGY_COST,
    EXCH,
    FIRST_PROGRAM,
    HACK,
    MAX_HP,
    POLY,
    PULL,
    PUSH,
    REDUC,
    RESET,
    ROW,
    SCORE,
    SHOW,
    SIPH,
    STAGES,
    STEP,
    UNDO,
    VIRUS,
    WARP,
    Board,
    Enemies,
    State,
    Transmissions,
)  # fmt: skip

Array = jax.Array


def run(state: State, key: Key, program: Array) -> tuple[State, Array]:
    """Pays for and runs the program with this action number; other numbers change nothing.

    Also returns the kills that count. WAIT has no effect but the enemy turn, which follows
    elsewhere.
    """
    state = _pay(state, program)
    state, hits = _strike(state, program)
    state, warped = _warp(state, key, program == WARP)
    state, crashed = _crash(state, program == CRASH)
    state, mutated = _poly(state, key, program == POLY)
    state = _shove(state, program == PUSH, program == PULL)
    state = _switch(state, program)
    state = history.undo(state, program == UNDO)
    return state, hits + warped + crashed + mutated


def _pay(state: State, program: Array) -> State:
    is_program = (program >= FIRST_PROGRAM) & (program < FIRST_PROGRAM + len(CREDIT_COST))
    number = jnp.where(is_program, program - FIRST_PROGRAM, 0)
    credits = jnp.where(is_program, jnp.asarray(CREDIT_COST, jnp.int32)[number], 0)
    energy = jnp.where(is_program, jnp.asarray(ENERGY_COST, jnp.int32)[number], 0)
    player = state.player
    return state.replace(
        player=player.replace(credits=player.credits - credits, energy=player.energy - energy)
    )


def _strike(state: State, program: Array) -> tuple[State, Array]:
    """DEBUG, ROW, COL, HACK, ANTI-V and D_BOM: damage to a set of enemies."""
    enemies = state.enemies
    hit, daemon = _hit(state, program)
    by_one = (program == D_BOM) | (program == ANTI_V)
    survivors, killed = combat.damage(enemies, hit, jnp.where(by_one, 1, state.player.attack))
    survivors = survivors.replace(present=survivors.present & ~daemon)
    return state.replace(enemies=survivors), combat.counted(enemies, killed | daemon)


@outlined
def _hit(state: State, program: Array) -> tuple[Array, Array]:
    """The enemies that are hit, and the daemon that blows up."""
    enemies, cell = state.enemies, state.player.cell
    row = digits.equals(enemies.row, cell // SIZE)
    column = digits.equals(enemies.column, cell % SIZE)
    daemons = enemies.present & digits.equals(enemies.kind, DAEMON)
    daemon = jnp.where(program == D_BOM, combat.nearest(enemies, daemons, cell), 0)
    blast = cells.around(cells.at(slots.cell_of(enemies, daemon)))
    aimed_cells = cells.where(program == DEBUG, state.board.blocks, state.board.siphoned)
    aimed_cells = cells.where(program == D_BOM, blast, aimed_cells)
    by_cell = (program == DEBUG) | (program == HACK) | (program == D_BOM)
    hit = jnp.where(by_cell, slots.in_cells(enemies, aimed_cells), 0)
    hit = hit | jnp.where(program == ROW, row, 0) | jnp.where(program == COL, column, 0)
    hit = hit | jnp.where(program == ANTI_V, digits.equals(enemies.kind, VIRUS), 0)
    return hit & enemies.present & ~daemon, daemon


def _warp(state: State, key: Key, active: Array) -> tuple[State, Array]:
    enemies, transmissions = state.enemies, state.transmissions
    cell, at_enemy = _warp_target(enemies, transmissions, key)
    killed = jnp.where(active & at_enemy, slots.at_cell(enemies, cell), 0)
    destroyed = jnp.where(active & ~at_enemy, slots.at_cell(transmissions, cell), 0)
    kills = combat.counted(enemies, slots.first(killed))
    kills = kills + combat.counted(transmissions, slots.first(destroyed))
    return (
        state.replace(
            player=state.player.replace(cell=jnp.where(active, cell, state.player.cell)),
            enemies=enemies.replace(present=enemies.present & ~killed),
            transmissions=transmissions.replace(present=transmissions.present & ~destroyed),
        ),
        kills,
    )


@outlined
def _warp_target(enemies: Enemies, transmissions: Transmissions, key: Key) -> tuple[Array, Array]:
    """The cell of a random enemy or transmission, and which of the two it is."""
    random, which = words(key, Purpose.WARP, 0)
    number = slots.count(enemies.present)
    at_enemy = uniform_below(random, number + slots.count(transmissions.present)) < number
    enemy, transmission = (pick_slot(which, each.present) for each in (enemies, transmissions))
    cell = jnp.where(
        at_enemy, slots.cell_of(enemies, enemy), slots.cell_of(transmissions, transmission)
    )
    return cell, at_enemy


def _crash(state: State, active: Array) -> tuple[State, Array]:
    enemies, transmissions, board = state.enemies, state.transmissions, state.board
    killed, enemy_kills = _crashed(enemies, state.player.cell, active)
    destroyed, transmission_kills = _crashed(transmissions, state.player.cell, active)
    blocks = _blocks_around(board, state.player.cell).only_if(active)
    return (
        state.replace(
            board=board.replace(
                data=board.data - blocks,
                program=board.program - blocks,
                question=board.question - blocks,
                label=digits.only(board.label, ~blocks),
                spawn=digits.only(board.spawn, ~blocks),
            ),
            enemies=enemies.replace(present=enemies.present & ~killed),
            transmissions=transmissions.replace(present=transmissions.present & ~destroyed),
        ),
        enemy_kills + transmission_kills,
    )


@outlined
def _crashed(entries: Enemies | Transmissions, cell: Array, active: Array) -> tuple[Array, Array]:
    """The slots of the entries around the cell, and the kills: one at most in each cell."""
    killed, firsts = jnp.uint32(0), jnp.uint32(0)
    for there in slots.around(entries, cell):
        killed, firsts = killed | there, firsts | slots.first(there)
    return jnp.where(active, killed, 0), jnp.where(active, combat.counted(entries, firsts), 0)


@outlined
def _blocks_around(board: Board, cell: Array) -> cells.CellSet:
    return cells.around(cells.at(cell)) & board.blocks


def _poly(state: State, key: Key, active: Array) -> tuple[State, Array]:
    changed = jnp.where(active, state.enemies.present, 0)
    low, high = _other_kinds(key, state.enemies.kind)
    enemies, died = combat.change_kind(state.enemies, changed, (low, high))
    return state.replace(enemies=enemies), combat.counted(state.enemies, died)


@outlined
def _other_kinds(key: Key, kind: Digits[Array]) -> Digits[Array]:
    """For every slot one of the 3 other types: a flip of the two digits that is not 00, redrawn
    while it is.
    """
    low, high = jnp.uint32(0), jnp.uint32(0)
    for more_low, more_high in several(key, Purpose.POLY, 12):
        missing = ~(low | high)
        low, high = low | (more_low & missing), high | (more_high & missing)
    high = high | ~(low | high)
    return kind[0] ^ low, kind[1] ^ high


def _shove(state: State, push: Array, pull: Array) -> State:
    """PUSH and PULL, where no two enemies arrive at a cell: only the first one goes."""
    enemies = state.enemies
    target_row, target_column = _shoved(enemies, state.player.cell, push, pull)
    moved = jnp.uint32(0)
    for a, b in zip((*target_row, *target_column), (*enemies.row, *enemies.column), strict=True):
        moved = moved | (a ^ b)
    movers = enemies.replace(present=enemies.present & moved, row=target_row, column=target_column)
    arriving = slots.firsts(movers)
    return state.replace(
        enemies=enemies.replace(
            row=digits.select(arriving, target_row, enemies.row),
            column=digits.select(arriving, target_column, enemies.column),
        )
    )


@outlined
def _shoved(
    enemies: Enemies, cell: Array, push: Array, pull: Array
) -> tuple[Digits[Array], Digits[Array]]:
    """The rows and columns of the enemies one step away from or towards the player, also
    diagonally.

    Away: the farthest candidate is always the step in both axes, each left out where it would leave
    the board. Towards: the step in both axes, but only the row of it where both would end on the
    player, and none where a straight step would.
    """
    above, below, next_row = _sides(enemies.row, cell // SIZE)
    after, before, next_column = _sides(enemies.column, cell % SIZE)
    pulled = jnp.where(pull, ~slots.beside(enemies, cell), 0)
    pulled_column = pulled & ~(next_row & next_column)
    pushed = jnp.where(push, slots.ALL, 0)
    top_row = digits.equals(enemies.row, SIZE - 1)
    last_column = digits.equals(enemies.column, SIZE - 1)
    bottom_row, first_column = digits.equals(enemies.row, 0), digits.equals(enemies.column, 0)
    return (
        _step(
            enemies.row,
            up=(pushed & above & ~top_row) | (pulled & below),
            down=(pushed & below & ~bottom_row) | (pulled & above),
        ),
        _step(
            enemies.column,
            up=(pushed & after & ~last_column) | (pulled_column & before),
            down=(pushed & before & ~first_column) | (pulled_column & after),
        ),
    )


@outlined
def _sides(numbers: Digits[Array], value: Array) -> tuple[Array, Array, Array]:
    """The slots whose number is greater than, less than, and exactly one off the value."""
    greater, less = jnp.uint32(0), jnp.uint32(0)
    for number in range(SIZE):
        here = digits.equals(numbers, number)
        greater = greater | jnp.where(value < number, here, 0)
        less = less | jnp.where(value > number, here, 0)
    next_to = digits.equals(numbers, value + 1) | digits.equals(numbers, value - 1)
    return greater, less, next_to


def _step(numbers: Digits[Array], up: Array, down: Array) -> Digits[Array]:
    """The numbers one higher or one lower in these slots."""
    return digits.minus_one(digits.plus_one(numbers, up), down)


def _switch(state: State, program: Array) -> State:
    """The programs that change a number or a flag."""
    player, board, transmissions = state.player, state.board, state.transmissions
    reduced = (board.blocks - board.siphoned).only_if(program == REDUC)
    delayed = jnp.where(program == DELAY, transmissions.present, 0)
    attacks = program == ATK
    return state.replace(
        player=player.replace(
            hp=jnp.where(program == RESET, MAX_HP, player.hp),
            energy=player.energy + 4 * (program == EXCH),
            data_siphons=player.data_siphons + (program == SIPH),
            attack=player.attack + attacks,
            score=player.score + jnp.where(program == SCORE, STAGES - state.stage, 0),
        ),
        board=board.replace(
            spawn=digits.minus_one(board.spawn, reduced & digits.nonzero(board.spawn))
        ),
        transmissions=transmissions.replace(turns=_three_more(transmissions.turns, delayed)),
        step=state.step | (program == STEP),
        show=state.show | (program == SHOW),
        calm=state.calm | (program == CALM),
        atk_uses=state.atk_uses + attacks,
    )


def _three_more(turns: Digits[Array], where: Array) -> Digits[Array]:
    """The turns plus three in these slots, at most the largest number of these digits."""
    return digits.at_most(digits.add(turns, (where, where)), len(turns))
