"""Stages and new games (sections 2 and 9 of the rules)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import bits, cells, few, layouts, several, slots, spawning
from hackmatrix.game.cells import CORNERS, EVERY, CellSet
from hackmatrix.game.outline import outlined
from hackmatrix.game.randomness import Key, Purpose, pick_cell, uniform_below, word, words
from hackmatrix.game.state import (
    BOARD_SETS,
    FIRST_INTERVAL,
    MAX_HP,
    STAGES,
    Board,
    Enemies,
    History,
    Player,
    State,
    Transmissions,
)

Array = jax.Array

START_CREDITS, START_ENERGY, START_SIPHONS = 10, 11, 1


def complete_stage(state: State, completed: Array) -> State:
    """Applies what completing a stage changes at once. The next board is drawn later."""
    stage = state.stage + completed
    player = state.player
    return state.replace(
        player=player.replace(
            hp=jnp.where(completed, jnp.minimum(player.hp + 1, MAX_HP), player.hp)
        ),
        stage=stage,
        interval=jnp.where(
            completed & (stage <= STAGES), FIRST_INTERVAL + 1 - stage, state.interval
        ),
    )


def generate(state: State, key: Key) -> State:
    """Draws new boards, with their transmissions, for the stages that the states are in."""
    everywhere = jnp.ones_like(state.show)
    state = draw_next_boards(state, key, everywhere, few.EVERY_BOARD)
    return spawning.spawn(state, key, {Purpose.STAGE_SPAWN: state.stage}, few.EVERY_BOARD)


def draw_next_boards(state: State, key: Key, new_stage: Array, width: few.Width) -> State:
    """Draws boards where the stage is new, `width` of them at a time. Enemies and transmissions
    stay; the transmissions of the new stage are not spawned yet.
    """
    state, _ = few.apply_once(new_stage, _draw_board, (state, key), width)
    board = state.board
    return state.replace(
        board=board.replace(
            siphoned=board.siphoned.only_if(~new_stage), centre=board.centre.only_if(~new_stage)
        ),
        turn=jnp.where(new_stage, 0, state.turn),
        next_task=jnp.where(new_stage, state.interval, state.next_task),
        show=state.show & ~new_stage,
        calm=state.calm & ~new_stage,
        step=state.step & ~new_stage,
        atk_uses=jnp.where(new_stage, 0, state.atk_uses),
    )


def _draw_board(boards: tuple[State, Key]) -> tuple[State, Key]:
    state, key = boards
    occupied = slots.cells_of(state.enemies) | slots.cells_of(state.transmissions)
    corners = CORNERS - cells.at(state.player.cell)
    exit_cell = _place_exit(key, corners)
    exit_ = cells.at(exit_cell)
    blocks = layouts.draw(key, exit_, EVERY - CORNERS - occupied)
    contents = layouts.fill(key, blocks)
    low, high, energy = (each - contents.blocks - exit_ for each in _draw_resources(key))
    nowhere = jax.tree.map(jnp.zeros_like, low)
    board = contents.replace(
        exit=exit_,
        data_siphon=corners - exit_,
        amount=(low, high, *(nowhere,) * (bits.AMOUNT - 2)),
        energy=energy,
        siphoned=state.board.siphoned,
        centre=state.board.centre,
    )
    return state.replace(board=board, exit_cell=exit_cell), key


@outlined
def _place_exit(key: Key, corners: CellSet) -> Array:
    return pick_cell(word(key, Purpose.EXIT), corners)


@outlined
def _draw_resources(key: Key) -> tuple[CellSet, CellSet, CellSet]:
    """Draws for every cell the two digits of an amount, which is 1, 2 or 3 with probabilities 0.45,
    0.45 and 0.10, and whether it is energy.
    """

    @outlined
    def drawn(cell: several.Number) -> tuple[Array, Array, Array]:
        amount, kind = words(key, Purpose.RESOURCES, cell)
        part = uniform_below(amount, 20)
        return (part < 9) | (part >= 18), part >= 9, kind >> np.uint32(31) != 0

    def resource(cell: several.Number) -> tuple[CellSet, CellSet, CellSet]:
        here = cells.at(cell)
        is_odd, is_great, is_energy = drawn(cell)
        return here.only_if(is_odd), here.only_if(is_great), here.only_if(is_energy)

    return several.union(cells.CELLS, resource, key.low)


def new_game(key: Key, history: History) -> State:
    """Returns new games whose first stage is still to be drawn."""
    none = jnp.zeros_like(key.low)
    zero = none.astype(jnp.int32)
    corner, which_bonus = words(key, Purpose.NEW_GAME, 0)
    bonus = uniform_below(which_bonus, 3)
    player = Player(
        cell=pick_cell(corner, CORNERS | CellSet(none, none)),
        hp=zero + MAX_HP,
        credits=jnp.where(bonus == 0, zero + START_CREDITS, zero),
        energy=jnp.where(bonus == 1, zero + START_ENERGY, zero),
        data_siphons=jnp.where(bonus == 2, zero + START_SIPHONS, zero),
        attack=zero + 1,
        score=zero,
    )
    off = zero != 0
    return State(
        player=player,
        board=empty_board(none),
        enemies=no_enemies(none),
        transmissions=no_transmissions(none),
        stage=zero + 1,
        turn=zero,
        exit_cell=zero,
        owned=none,
        show=off,
        calm=off,
        step=off,
        atk_uses=zero,
        pending=zero,
        interval=zero + FIRST_INTERVAL,
        next_task=zero,
        history=history,
    )


def empty_board(none: Array) -> Board:
    return Board.of([CellSet(none, none)] * BOARD_SETS)


def no_enemies(none: Array) -> Enemies:
    line, kind = (none,) * bits.LINE, (none,) * bits.KIND
    return Enemies(none, line, line, kind, (none,) * bits.HP, none, none, none, none)


def no_transmissions(none: Array) -> Transmissions:
    line, kind = (none,) * bits.LINE, (none,) * bits.KIND
    return Transmissions(none, line, line, kind, (none,) * bits.TURNS, none, none)
