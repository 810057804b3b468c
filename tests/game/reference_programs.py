"""The 23 programs: what they cost, spawn and need (section 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import reference_effects as effects
from reference_state import MAX_HP, Enemy, Game, surroundings

Condition = Callable[[Game], bool]

FIRST_PROGRAM_ACTION = 5
MAX_ATK_USES = 2


class Program(NamedTuple):
    name: str
    credits: int
    energy: int
    spawn: int
    usable: Condition
    run: effects.Effect


def always(game: Game) -> bool:
    return True


def any_enemy(game: Game) -> bool:
    return bool(game.enemies)


def any_transmission(game: Game) -> bool:
    return bool(game.transmissions)


def enemy_or_transmission(game: Game) -> bool:
    return any_enemy(game) or any_transmission(game)


def any_of(targets: Callable[[Game], list[Enemy]]) -> Condition:
    return lambda game: bool(targets(game))


def anything_around(game: Game) -> bool:
    return any(
        game.is_block(cell) or game.enemies_at(cell) or game.transmissions_at(cell)
        for cell in surroundings(game.player.position)
    )


def reducible_block(game: Game) -> bool:
    cells = game.cells.values()
    return any(cell.is_block and not cell.siphoned and cell.spawn > 0 for cell in cells)


def siphoned_cell(game: Game) -> bool:
    return any(cell.siphoned for cell in game.cells.values())


def has_history(game: Game) -> bool:
    return bool(game.history)


def not_shown(game: Game) -> bool:
    return not game.show


def not_calm(game: Game) -> bool:
    return not game.calm


def hurt(game: Game) -> bool:
    return game.player.hp < MAX_HP


def before_last_stage(game: Game) -> bool:
    return game.stage < 8


def attack_upgradable(game: Game) -> bool:
    return game.atk_uses < MAX_ATK_USES


ON_BLOCKS, IN_ROW = effects.enemies_on_blocks, effects.enemies_in_row
IN_COLUMN, ON_SIPHONED = effects.enemies_in_column, effects.enemies_on_siphoned_cells
DAEMONS, VIRUSES = effects.daemons, effects.viruses

PROGRAMS = [
    Program("PUSH", 0, 2, 4, any_enemy, effects.push),
    Program("PULL", 0, 2, 4, any_enemy, effects.pull),
    Program("CRASH", 3, 2, 6, anything_around, effects.crash),
    Program("WARP", 2, 2, 5, enemy_or_transmission, effects.warp),
    Program("POLY", 1, 1, 3, any_enemy, effects.poly),
    Program("WAIT", 0, 1, 1, always, effects.nothing),
    Program("DEBUG", 3, 0, 4, any_of(ON_BLOCKS), effects.hit_all(ON_BLOCKS)),
    Program("ROW", 3, 1, 2, any_of(IN_ROW), effects.hit_all(IN_ROW)),
    Program("COL", 3, 1, 2, any_of(IN_COLUMN), effects.hit_all(IN_COLUMN)),
    Program("UNDO", 1, 0, 3, has_history, effects.undo),
    Program("STEP", 0, 3, 4, always, effects.step),
    Program("SIPH+", 5, 0, 7, always, effects.siph),
    Program("EXCH", 4, 0, 3, always, effects.exch),
    Program("SHOW", 2, 0, 2, not_shown, effects.show),
    Program("RESET", 0, 4, 2, hurt, effects.reset),
    Program("CALM", 2, 4, 6, not_calm, effects.calm),
    Program("D_BOM", 3, 0, 4, any_of(DAEMONS), effects.d_bom),
    Program("DELAY", 1, 2, 4, any_transmission, effects.delay),
    Program("ANTI-V", 3, 0, 4, any_of(VIRUSES), effects.anti_v),
    Program("SCORE", 0, 5, 5, before_last_stage, effects.score),
    Program("REDUC", 2, 1, 3, reducible_block, effects.reduc),
    Program("ATK+", 4, 4, 8, attack_upgradable, effects.atk),
    Program("HACK", 2, 2, 4, siphoned_cell, effects.hit_all(ON_SIPHONED)),
]
