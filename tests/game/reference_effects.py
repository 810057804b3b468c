"""What the programs do (section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from reference_state import (
    DAEMON,
    EMPTY,
    ENEMY_HP,
    MAX_HP,
    VIRUS,
    Enemy,
    Game,
    Position,
    Transmission,
    manhattan,
    on_board,
    surroundings,
)


@dataclass
class Events:
    """What the reward needs to know of an action besides the states before and after it."""

    kills: int = 0
    data_siphon: bool = False
    exit_reached: bool = False

    def kill(self, killed: Enemy | Transmission) -> None:
        """Counts a kill, unless it is a scheduled one."""
        self.kills += not killed.from_schedule


Effect = Callable[[Game, Random, Events], None]


def hit(game: Game, targets: Iterable[Enemy], events: Events) -> None:
    deal_damage(game, targets, game.player.attack, events)


def deal_damage(game: Game, targets: Iterable[Enemy], damage: int, events: Events) -> None:
    """Every target takes the damage; survivors are stunned."""
    for enemy in list(targets):
        enemy.hp -= damage
        enemy.stunned = 1
    remove_dead(game, events)


def remove_dead(game: Game, events: Events) -> None:
    for enemy in game.enemies:
        if enemy.hp <= 0:
            events.kill(enemy)
    game.enemies = [enemy for enemy in game.enemies if enemy.hp > 0]


def clear_enemies(game: Game, position: Position, events: Events) -> None:
    """Removes all enemies of a cell. Only the first counts as a kill."""
    if removed := game.enemies_at(position):
        events.kill(removed[0])
        game.enemies = [enemy for enemy in game.enemies if enemy not in removed]


def clear_transmissions(game: Game, position: Position, events: Events) -> None:
    """Removes all transmissions of a cell. Only the first counts as a kill."""
    if removed := game.transmissions_at(position):
        events.kill(removed[0])
        game.transmissions = [each for each in game.transmissions if each not in removed]


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _moves_of(game: Game, enemy: Enemy, towards: int) -> list[Position]:
    """Where PUSH (towards=-1) or PULL (towards=1) may move an enemy; the first wins a tie."""
    row_sign = _sign(game.player.row - enemy.row) * towards
    col_sign = _sign(game.player.col - enemy.col) * towards
    shifts = [(row_sign, col_sign)]
    if row_sign:
        shifts.append((row_sign, 0))
    if col_sign:
        shifts.append((0, col_sign))
    cells = [(enemy.row + row, enemy.col + col) for row, col in shifts]
    return [cell for cell in cells if on_board(cell)]


def _move_all(game: Game, destinations: list[Position | None]) -> None:
    taken: set[Position] = set()
    for enemy, destination in zip(game.enemies, destinations, strict=True):
        if destination is not None and destination not in taken:
            enemy.place(destination)
            taken.add(destination)


def push(game: Game, rng: Random, events: Events) -> None:
    def destination(enemy: Enemy) -> Position | None:
        candidates = _moves_of(game, enemy, towards=-1)
        return max(candidates, key=lambda cell: manhattan(cell, game.player.position), default=None)

    _move_all(game, [destination(enemy) for enemy in game.enemies])


def pull(game: Game, rng: Random, events: Events) -> None:
    player = game.player.position

    def destination(enemy: Enemy) -> Position | None:
        candidates = [cell for cell in _moves_of(game, enemy, towards=1) if cell != player]
        return min(candidates, key=lambda cell: manhattan(cell, player), default=None)

    _move_all(game, [destination(enemy) for enemy in game.enemies])


def crash(game: Game, rng: Random, events: Events) -> None:
    for position in surroundings(game.player.position):
        cell = game.cells[position]
        if cell.is_block:
            cell.kind, cell.value, cell.spawn = EMPTY, 0, 0
        clear_enemies(game, position, events)
        clear_transmissions(game, position, events)


def warp(game: Game, rng: Random, events: Events) -> None:
    target = rng.choice(game.enemies_and_transmissions())
    game.player.place(target.position)
    if isinstance(target, Enemy):
        clear_enemies(game, target.position, events)
    else:
        clear_transmissions(game, target.position, events)
    events.exit_reached = game.player.position == game.exit


def poly(game: Game, rng: Random, events: Events) -> None:
    for enemy in game.enemies:
        damage_taken = ENEMY_HP[enemy.type] - enemy.hp
        enemy.type = rng.choice([type for type in range(4) if type != enemy.type])
        enemy.hp = ENEMY_HP[enemy.type] - damage_taken
    remove_dead(game, events)


def nothing(game: Game, rng: Random, events: Events) -> None:
    pass


def enemies_on_blocks(game: Game) -> list[Enemy]:
    return [enemy for enemy in game.enemies if game.is_block(enemy.position)]


def enemies_in_row(game: Game) -> list[Enemy]:
    return [enemy for enemy in game.enemies if enemy.row == game.player.row]


def enemies_in_column(game: Game) -> list[Enemy]:
    return [enemy for enemy in game.enemies if enemy.col == game.player.col]


def enemies_on_siphoned_cells(game: Game) -> list[Enemy]:
    return [enemy for enemy in game.enemies if game.cells[enemy.position].siphoned]


def viruses(game: Game) -> list[Enemy]:
    return [enemy for enemy in game.enemies if enemy.type == VIRUS]


def daemons(game: Game) -> list[Enemy]:
    return [enemy for enemy in game.enemies if enemy.type == DAEMON]


def hit_all(targets: Callable[[Game], list[Enemy]]) -> Effect:
    """The effect of DEBUG, ROW, COL and HACK."""
    return lambda game, rng, events: hit(game, targets(game), events)


def anti_v(game: Game, rng: Random, events: Events) -> None:
    deal_damage(game, viruses(game), 1, events)


def d_bom(game: Game, rng: Random, events: Events) -> None:
    player = game.player.position
    daemon = min(daemons(game), key=lambda enemy: manhattan(enemy.position, player))
    game.enemies.remove(daemon)
    events.kill(daemon)
    blast = surroundings(daemon.position)
    hurt = [enemy for enemy in game.enemies if enemy.position in blast]
    deal_damage(game, hurt, 1, events)


def undo(game: Game, rng: Random, events: Events) -> None:
    game.pop_snapshot()


def step(game: Game, rng: Random, events: Events) -> None:
    game.step = 1


def siph(game: Game, rng: Random, events: Events) -> None:
    game.player.siphons += 1


def exch(game: Game, rng: Random, events: Events) -> None:
    game.player.energy += 4


def show(game: Game, rng: Random, events: Events) -> None:
    game.show = 1


def reset(game: Game, rng: Random, events: Events) -> None:
    game.player.hp = MAX_HP


def calm(game: Game, rng: Random, events: Events) -> None:
    game.calm = 1


def delay(game: Game, rng: Random, events: Events) -> None:
    for each in game.transmissions:
        each.turns += 3


def score(game: Game, rng: Random, events: Events) -> None:
    game.player.score += 8 - game.stage


def reduc(game: Game, rng: Random, events: Events) -> None:
    for cell in game.cells.values():
        if cell.is_block and not cell.siphoned:
            cell.spawn = max(0, cell.spawn - 1)


def atk(game: Game, rng: Random, events: Events) -> None:
    game.player.attack += 1
    game.atk_uses += 1
