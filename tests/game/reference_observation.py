"""The observation: 1545 values (section 11)."""

from __future__ import annotations

from reference_state import CRYPTOG, DATA, POSITIONS, PROGRAM, QUESTIONS, Game, Position

PROGRAM_COUNT = 23


def observation(game: Game) -> list[float]:
    grid = [value for position in POSITIONS for value in _cell_values(game, position)]
    owned = [float(program in game.owned) for program in range(PROGRAM_COUNT)]
    return [*_player_values(game), *owned, *grid]


def _player_values(game: Game) -> list[float]:
    player = game.player
    return [
        player.row / 5,
        player.col / 5,
        player.hp / 3,
        min(player.credits / 50, 1.0),
        min(player.energy / 50, 1.0),
        (game.stage - 1) / 7,
        player.siphons / 10,
        (player.attack - 1) / 2,
        float(game.show),
        float(game.calm),
    ]


def _cell_values(game: Game, position: Position) -> list[float]:
    cell = game.cells[position]
    return [
        *_enemy_values(game, position),
        *_block_values(game, position),
        _transmission_value(game, position),
        *_resource_values(game, position),
        float(cell.kind == "S"),
        float(cell.kind == "X"),
        float(cell.centre),
    ]


def _enemy_values(game: Game, position: Position) -> list[float]:
    enemies = game.enemies_at(position)
    if not enemies or (enemies[0].type == CRYPTOG and not _sees_cryptogs(game, position)):
        return [0.0] * 7
    first = enemies[0]
    types = [float(first.type == type) for type in range(4)]
    return [*types, first.hp / 3, float(first.stunned), float(first.from_siphon)]


def _sees_cryptogs(game: Game, position: Position) -> bool:
    row, col = position
    return bool(game.show) or row == game.player.row or col == game.player.col


def _block_values(game: Game, position: Position) -> list[float]:
    cell = game.cells[position]
    is_program = cell.kind == PROGRAM
    return [
        float(cell.kind == DATA),
        float(is_program),
        float(cell.kind in QUESTIONS),
        cell.value / 9 if cell.kind == DATA else 0.0,
        float(cell.is_block and cell.siphoned),
        *[float(is_program and cell.value == program) for program in range(PROGRAM_COUNT)],
        cell.spawn / 9 if cell.kind in (DATA, PROGRAM) else 0.0,
    ]


def _transmission_value(game: Game, position: Position) -> float:
    transmissions = game.transmissions_at(position)
    return min(transmissions[0].turns / 4, 1.0) if transmissions else 0.0


def _resource_values(game: Game, position: Position) -> list[float]:
    cell = game.cells[position]
    if cell.is_block and not cell.siphoned:
        return [0.0, 0.0]
    return [cell.credits / 3, cell.energy / 3]
