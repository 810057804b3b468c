"""A second implementation of the game: slow, plain, and written only from docs/rules.md.

It is the oracle for the fast one; the docstrings cite sections of the rules. A state is a plain
dict with the keys of the golden data. Its `history` holds the newest 16 snapshots, oldest first;
None stands for a snapshot whose contents the golden data leaves out.
"""

from __future__ import annotations

from random import Random

import reference_stage
from reference_effects import Events, hit
from reference_observation import observation
from reference_programs import FIRST_PROGRAM_ACTION, PROGRAMS
from reference_reward import Reward, reward_of
from reference_state import (
    DATA,
    DATA_SIPHON,
    DIRECTIONS,
    EMPTY,
    EXIT,
    HISTORY_LIMIT,
    PROGRAM,
    Cell,
    Game,
    Position,
    State,
    cross,
    dump,
    load,
    on_board,
)
from reference_turn import enemy_turn

__all__ = ["HISTORY_LIMIT", "new_game", "observe", "step", "valid_actions"]

SIPHON = 4
ACTION_COUNT = 28


def new_game(rng: Random) -> State:
    return dump(reference_stage.new_game(rng))


def observe(state: State) -> list[float]:
    return observation(load(state))


def valid_actions(state: State) -> list[int]:
    game = load(state)
    return [action for action in range(ACTION_COUNT) if _is_valid(game, action)]


def step(state: State, action: int, rng: Random) -> tuple[State, list[float], dict[str, bool]]:
    """Returns the state after the action, the 15 parts of its reward, and how the action ended."""
    before, game = load(state), load(state)
    if not _is_valid(before, action):
        return dump(game), Reward().parts(), _ending(invalid=True)
    events = Events()
    _perform(game, action, events, rng)
    if events.exit_reached:
        reference_stage.complete_stage(game, rng)
    elif action <= SIPHON or _action_name(action) == "WAIT":
        enemy_turn(game, rng)
    ending = _ending(
        stage_advanced=events.exit_reached, won=game.stage > 8, died=game.player.hp == 0
    )
    return dump(game), reward_of(before, game, _action_name(action), events).parts(), ending


def _ending(**happened: bool) -> dict[str, bool]:
    return {"stage_advanced": False, "won": False, "died": False, "invalid": False, **happened}


def _action_name(action: int) -> str:
    names = ["UP", "DOWN", "LEFT", "RIGHT", "SIPHON", *[program.name for program in PROGRAMS]]
    return names[action]


def _is_valid(game: Game, action: int) -> bool:
    """Whether the action is valid (section 3)."""
    if action < SIPHON:
        target = _neighbour(game, action)
        return on_board(target) and (not game.is_block(target) or bool(game.enemies_at(target)))
    if action == SIPHON:
        return game.player.siphons > 0
    index = action - FIRST_PROGRAM_ACTION
    program, player = PROGRAMS[index], game.player
    affordable = program.credits <= player.credits and program.energy <= player.energy
    return index in game.owned and affordable and program.usable(game)


def _neighbour(game: Game, direction: int) -> Position:
    row, col = DIRECTIONS[direction]
    return game.player.row + row, game.player.col + col


def _perform(game: Game, action: int, events: Events, rng: Random) -> None:
    if action < SIPHON:
        _shoot_or_walk(game, action, events)
    elif action == SIPHON:
        _siphon(game)
    else:
        program = PROGRAMS[action - FIRST_PROGRAM_ACTION]
        game.player.credits -= program.credits
        game.player.energy -= program.energy
        program.run(game, rng, events)


def _shoot_or_walk(game: Game, direction: int, events: Events) -> None:
    """Takes a direction: shoots the nearest target, or else walks (section 4)."""
    position = _nearest_target(game, direction)
    if position is None:
        _walk(game, _neighbour(game, direction), events)
    elif transmissions := game.transmissions_at(position):
        game.transmissions.remove(transmissions[0])
        events.kill(transmissions[0])
    else:
        hit(game, game.enemies_at(position)[:1], events)


def _nearest_target(game: Game, direction: int) -> Position | None:
    """The nearest cell in view, in this direction, with a transmission or an enemy."""
    row, col = DIRECTIONS[direction]
    position = _neighbour(game, direction)
    while on_board(position):
        if game.transmissions_at(position) or game.enemies_at(position):
            return position
        if game.is_block(position):
            return None
        position = position[0] + row, position[1] + col
    return None


def _walk(game: Game, target: Position, events: Events) -> None:
    if not on_board(target) or game.is_block(target):
        return
    game.player.place(target)
    cell = game.cells[target]
    if cell.kind == DATA_SIPHON:
        cell.kind = EMPTY
        game.player.siphons += 1
        events.data_siphon = True
    events.exit_reached = cell.kind == EXIT


def _siphon(game: Game) -> None:
    """Siphons the cross of the player's cell (section 5)."""
    game.cells[game.player.position].centre = 1
    for position in cross(game.player.position):
        cell = game.cells[position]
        if not cell.siphoned:
            _siphon_cell(game, cell)
            cell.siphoned = 1
    game.player.siphons -= 1
    game.interval = max(4, game.interval - 1)
    game.next_task += 5


def _siphon_cell(game: Game, cell: Cell) -> None:
    if cell.is_data:
        cell.kind = DATA
        game.player.score += cell.value
    elif cell.is_program:
        cell.kind = PROGRAM
        if cell.value not in game.owned:
            game.owned.append(cell.value)
    else:
        game.player.credits += cell.credits
        game.player.energy += cell.energy
        cell.credits = cell.energy = 0
    game.pending += cell.spawn
    cell.spawn = 0
