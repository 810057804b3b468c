"""Redraws what the player cannot know, so that planning on a state uses no hidden information.

The player knows the observation, the turn and the score, and from its own actions how often it has
siphoned, how many transmissions are pending (from the blocks that it siphoned), whether STEP is in
effect and how often it used ATK+. Hidden are

- what lies in question blocks,
- where the cryptogs are that are out of sight (their number is known),
- the enemies that do not come first in their cell (their number is known),
- what transmissions will become and what sent them, and which enemies the schedule sent,
- when the next scheduled transmission is due, up to an interval from now (a player could count the
  turns, but is not expected to),

and all of this in the snapshots that UNDO restores, too. Besides the observation a player sees
which actions are valid. If REDUC can be paid for and is not valid, this is taken into account; if
CRASH or DEBUG is valid because of a cryptog out of sight, it is not.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import bits, cells, digits, history, slots
from hackmatrix.game.cells import CELLS, CellSet, column_of, row_of
from hackmatrix.game.layouts import SPAWNS
from hackmatrix.game.programs import Program
from hackmatrix.game.randomness import Key, Purpose, pick_cell, uniform_below, words
from hackmatrix.game.state import CRYPTOG, ENEMY_HP, Board, Enemies, State, Transmissions
from hackmatrix.game.valid import can_pay_for

Array = jax.Array


def redrawn(key: Key, state: State) -> State:
    """Returns a state that looks the same to the player, with everything hidden drawn from its own
    distribution. It depends only on the key and on what the player knows of the state. Any batch
    shape.
    """
    due, _ = words(key, Purpose.HIDDEN_SCHEDULE, 0)
    of_each = jax.tree.map(lambda word: word[..., None], key)
    drawn = _redrawn(of_each, _snapshots_and_now(state))
    snapshots = jnp.stack(history.pack(drawn), axis=-1)[..., :-1, :]
    return jax.tree.map(lambda leaf: leaf[..., -1], drawn).replace(
        next_task=state.turn + 1 + uniform_below(due, state.interval),
        history=state.history.replace(snapshots=snapshots),
    )


def _snapshots_and_now(state: State) -> State:
    """Stacks the snapshots and, last, the state along a new last axis, so that one program redraws
    them all. Leaves that no snapshot holds have size 1 on that axis.
    """
    now = state.replace(history=None)
    past = history.unpack(jnp.moveaxis(state.history.snapshots, -1, 0), now)
    return jax.tree.map(
        lambda then, leaf: (
            leaf[..., None] if then is leaf else jnp.concatenate([then, leaf[..., None]], -1)
        ),
        past,
        now,
    )


def _redrawn(key: Key, state: State) -> State:
    """Redraws everything but the schedule and the history."""
    return state.replace(
        transmissions=_transmissions(key, state.transmissions),
        board=_question_blocks(key, state),
        enemies=_enemies(key, state),
    )


def _question_blocks(key: Key, state: State) -> Board:
    """Redraws question blocks: data or a program, equally likely, no program twice on the board."""
    board, question = state.board, state.board.question
    shown = board.program - question
    unused = jnp.uint32((1 << len(Program)) - 1) & ~_programs_in(shown, board.label)

    def fill(unused: Array, cell: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        kind, points = words(key, Purpose.HIDDEN_CONTENT, 2 * cell)
        which, _ = words(key, Purpose.HIDDEN_CONTENT, 2 * cell + 1)
        is_program = (kind >> np.uint32(31) != 0) & question.has(cell) & (unused != 0)
        program = slots.nth(unused, uniform_below(which, slots.count(unused))).astype(jnp.int32)
        value = 1 + uniform_below(points, 9)
        label = jnp.where(is_program, program, value)
        spawn = jnp.where(is_program, jnp.asarray(SPAWNS)[program % len(Program)], value)
        used = jnp.where(is_program, slots.ONE << program.astype(jnp.uint32), 0)
        return unused & ~used, (is_program, label, spawn)

    _, drawn = jax.lax.scan(fill, unused, jnp.arange(CELLS))
    is_program, label, spawn = (jnp.moveaxis(each, 0, -1) for each in drawn)
    program = cells.of_flags(is_program)
    # Once REDUC has nothing left to reduce, the hidden blocks have no spawn either.
    is_reducible = (digits.nonzero(board.spawn) - board.siphoned).any()
    is_reduced = can_pay_for(Program.REDUC, state) & ~is_reducible
    spawn = jnp.where(is_reduced[..., None], 0, spawn)
    return board.replace(
        data=(board.data - question) | (question - program),
        program=shown | program,
        label=digits.select(question, _digits(label, bits.LABEL), board.label),
        spawn=digits.select(question, _digits(spawn, bits.SPAWN), board.spawn),
    )


def _programs_in(blocks: CellSet, label: digits.Digits[CellSet]) -> Array:
    """Returns which programs these blocks hold: bit i for program i."""
    held = jnp.uint32(0)
    for number in range(len(Program)):
        there = (digits.equals(label, number) & blocks).any()
        held = held | there.astype(jnp.uint32) << np.uint32(number)
    return held


def _digits(number: Array, places: int) -> digits.Digits[CellSet]:
    """Returns the binary digits of the number in each cell, from i32[..., 36]."""
    return tuple(cells.of_flags(number >> place & 1 != 0) for place in range(places))


def _transmissions(key: Key, transmissions: Transmissions) -> Transmissions:
    """Redraws the kinds of transmissions, and clears their flags, which are not observed."""
    present, nothing = transmissions.present, jnp.zeros_like(transmissions.present)
    return transmissions.replace(
        kind=tuple(digit & present for digit in words(key, Purpose.HIDDEN_KIND, 0)),
        from_siphon=nothing,
        from_schedule=nothing,
    )


def _enemies(key: Key, state: State) -> Enemies:
    """Redraws the enemies that are not seen. A cryptog out of sight, and whatever stands under it,
    becomes a cryptog in a random cell out of sight; an enemy under one that is seen becomes one of
    any kind. These enemies get full hit points and no flags.
    """
    enemies, firsts = state.enemies, slots.firsts(state.enemies)
    out_of_sight = _out_of_sight(state)
    unseen = firsts & digits.equals(enemies.kind, CRYPTOG) & slots.in_cells(enemies, out_of_sight)
    hidden = slots.in_cells(enemies, slots.cells_of(enemies, unseen))
    covered = enemies.present & ~firsts & ~hidden
    seen = slots.cells_of(enemies, ~hidden) | slots.cells_of(state.transmissions)
    free = out_of_sight - state.board.blocks - seen

    def place(carry: tuple, slot: Array) -> tuple[tuple, None]:
        row, column, free = carry
        among = cells.where(free.any(), free, out_of_sight)
        cell = pick_cell(words(key, Purpose.HIDDEN_PLACE, slot)[0], among)
        it = hidden & slots.ONE << slot.astype(jnp.uint32)
        return (
            digits.write(row, it, row_of(cell)),
            digits.write(column, it, column_of(cell)),
            free - cells.at(cell).only_if(it != 0),
        ), None

    (row, column, _), _ = jax.lax.scan(
        place, (enemies.row, enemies.column, free), jnp.arange(slots.CAPACITY)
    )
    kind = digits.write(enemies.kind, hidden, CRYPTOG)
    kind = digits.select(covered, words(key, Purpose.HIDDEN_KIND, 1), kind)
    hp, unknown = enemies.hp, hidden | covered
    for number, full in enumerate(ENEMY_HP):
        hp = digits.write(hp, unknown & digits.equals(kind, number), full)
    return enemies.replace(
        row=row,
        column=column,
        kind=kind,
        hp=hp,
        disabled=enemies.disabled & ~unknown,
        stunned=enemies.stunned & ~unknown,
        from_siphon=enemies.from_siphon & ~unknown,
        from_schedule=jnp.zeros_like(enemies.from_schedule),
    )


def _out_of_sight(state: State) -> CellSet:
    """Returns the cells in which a cryptog is not seen."""
    row, column = row_of(state.player.cell[..., None]), column_of(state.player.cell[..., None])
    cell = np.arange(CELLS)
    flags = (row_of(cell) != row) & (column_of(cell) != column) & ~state.show[..., None]
    return cells.of_flags(flags)
