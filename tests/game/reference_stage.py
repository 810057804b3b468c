"""New games (section 2), and the completion and generation of stages (section 9)."""

from __future__ import annotations

from random import Random

from reference_programs import PROGRAMS
from reference_state import (
    CORNERS,
    DATA,
    DATA_SIPHON,
    EMPTY,
    EXIT,
    HIDDEN_DATA,
    HIDDEN_PROGRAM,
    MAX_HP,
    POSITIONS,
    PROGRAM,
    Cell,
    Game,
    Player,
    Position,
    neighbours,
)
from reference_turn import spawn_transmission

LAST_STAGE = 8


def new_game(rng: Random) -> Game:
    player = Player(*rng.choice(CORNERS), MAX_HP, 0, 0, 0, 1, 0)
    gift, amount = rng.choice([("credits", 10), ("energy", 11), ("siphons", 1)])
    setattr(player, gift, amount)
    game = Game(
        player=player,
        turn=0,
        cells={},
        enemies=[],
        transmissions=[],
        owned=[],
        show=0,
        calm=0,
        atk_uses=0,
        stage=1,
        exit=player.position,
        step=0,
        pending=0,
        interval=12,
        next_task=12,
        history=[],
    )
    generate_stage(game, rng)
    return game


def complete_stage(game: Game, rng: Random) -> None:
    game.player.hp = min(MAX_HP, game.player.hp + 1)
    game.stage += 1
    if game.stage <= LAST_STAGE:
        game.interval = 13 - game.stage
        generate_stage(game, rng)


def generate_stage(game: Game, rng: Random) -> None:
    game.turn = 0
    game.next_task = game.interval
    game.show = game.calm = game.step = game.atk_uses = 0
    game.cells = {position: Cell() for position in POSITIONS}
    _place_exit_and_siphons(game, rng)
    _place_blocks(game, rng)
    _place_resources(game, rng)
    for _ in range(game.stage):
        spawn_transmission(game, rng)


def _place_exit_and_siphons(game: Game, rng: Random) -> None:
    corners = [corner for corner in CORNERS if corner != game.player.position]
    game.exit = rng.choice(corners)
    for corner in corners:
        game.cells[corner].kind = EXIT if corner == game.exit else DATA_SIPHON


def _place_blocks(game: Game, rng: Random) -> None:
    occupied = {each.position for each in game.enemies_and_transmissions()}
    open_cells = [each for each in POSITIONS if each not in CORNERS and each not in occupied]
    count = min(rng.randint(5, 11), len(open_cells))
    unused_programs = list(range(len(PROGRAMS)))
    for position in _draw_layout(game.exit, open_cells, count, rng):
        game.cells[position] = _draw_block(unused_programs, rng)


def _draw_layout(
    exit: Position, open_cells: list[Position], count: int, rng: Random
) -> list[Position]:
    for _ in range(100):
        blocks = rng.sample(open_cells, count)
        if _is_accepted(exit, blocks):
            return blocks
    return []


def _is_accepted(exit: Position, blocks: list[Position]) -> bool:
    non_blocks = [position for position in POSITIONS if position not in blocks]
    start = non_blocks[0]
    reached = {start}
    frontier = [start]
    while frontier:
        current = frontier.pop()
        if current == exit and current != start:
            continue
        new = [each for each in neighbours(current) if each in non_blocks and each not in reached]
        reached.update(new)
        frontier.extend(new)
    each_has_access = all(any(n in non_blocks for n in neighbours(block)) for block in blocks)
    return len(reached) == len(non_blocks) and each_has_access


def _draw_block(unused_programs: list[int], rng: Random) -> Cell:
    is_data, is_hidden = rng.random() < 0.5, rng.random() < 0.1
    if is_data:
        points = rng.randint(1, 9)
        return Cell(HIDDEN_DATA if is_hidden else DATA, points, points)
    program = unused_programs.pop(rng.randrange(len(unused_programs)))
    return Cell(HIDDEN_PROGRAM if is_hidden else PROGRAM, program, PROGRAMS[program].spawn)


def _place_resources(game: Game, rng: Random) -> None:
    for cell in game.cells.values():
        if cell.kind in (EMPTY, DATA_SIPHON):
            [amount] = rng.choices([1, 2, 3], [0.45, 0.45, 0.10])
            setattr(cell, rng.choice(["credits", "energy"]), amount)
