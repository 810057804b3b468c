"""The enemy turn (section 7), and where transmissions appear (section 10)."""

from __future__ import annotations

from random import Random

from reference_state import (
    ENEMY_HP,
    GLITCH,
    POSITIONS,
    VIRUS,
    Enemy,
    Game,
    Position,
    Transmission,
    distances_to,
    manhattan,
    neighbours,
)


def enemy_turn(game: Game, rng: Random) -> None:
    if game.step:
        game.step = 0
        return
    game.turn += 1
    _transmissions_become_enemies(game)
    _enemies_act(game, rng)
    _scheduled_transmission_appears(game, rng)
    _pending_transmissions_appear(game, rng)
    _enemies_recover(game)
    game.push_snapshot()


def _transmissions_become_enemies(game: Game) -> None:
    waiting = []
    for each in game.transmissions:
        if each.turns > 1:
            each.turns -= 1
            waiting.append(each)
        else:
            hp = ENEMY_HP[each.type]
            flags = each.from_siphon, each.from_schedule
            game.enemies.append(Enemy(each.type, each.row, each.col, hp, 1, 0, *flags))
    game.transmissions = waiting


def _enemies_act(game: Game, rng: Random) -> None:
    attacked: list[Enemy] = []
    steps = 2 if any(enemy.type == VIRUS for enemy in game.enemies) else 1
    for step in range(steps):
        for enemy in rng.sample(game.enemies, len(game.enemies)):
            can_act = not enemy.disabled and not enemy.stunned and enemy not in attacked
            if not can_act or (step > 0 and enemy.type != VIRUS):
                continue
            if manhattan(enemy.position, game.player.position) == 1:
                game.player.hp = max(0, game.player.hp - 1)
                attacked.append(enemy)
            elif target := _next_cell(game, enemy):
                enemy.place(target)


def _next_cell(game: Game, enemy: Enemy) -> Position | None:
    """The cell to which an enemy that does not attack walks; None if it stays."""
    occupied = {other.position for other in game.enemies if other is not enemy}
    occupied |= {each.position for each in game.transmissions}
    goal = game.player.position

    def walkable(position: Position) -> bool:
        return enemy.type == GLITCH or not game.is_block(position)

    def free(position: Position) -> bool:
        return walkable(position) and position not in occupied

    def first_step(around_others: bool) -> Position | None:
        if not walkable(goal):
            return None
        distances = distances_to(goal, free if around_others else walkable)
        steps = [each for each in neighbours(enemy.position) if each in distances]
        return min(steps, key=distances.__getitem__, default=None)

    if step := first_step(around_others=True):
        return step
    if (step := first_step(around_others=False)) and step not in occupied:
        return step
    steps = [each for each in neighbours(enemy.position) if free(each)]
    return min(steps, key=lambda each: manhattan(each, goal), default=None)


def _scheduled_transmission_appears(game: Game, rng: Random) -> None:
    if not game.calm and game.turn >= game.next_task:
        spawn_transmission(game, rng, from_schedule=1)
        game.next_task = game.turn + game.interval


def _pending_transmissions_appear(game: Game, rng: Random) -> None:
    for _ in range(game.pending):
        spawn_transmission(game, rng, from_siphon=1)
    game.pending = 0


def _enemies_recover(game: Game) -> None:
    for enemy in game.enemies:
        enemy.disabled = max(0, enemy.disabled - 1)
        enemy.stunned = 0


def spawn_transmission(
    game: Game, rng: Random, from_siphon: int = 0, from_schedule: int = 0
) -> None:
    possible = [position for position in POSITIONS if _is_possible(game, position)]
    preferred = [position for position in possible if not _can_be_shot(game, position)]
    for cells in (preferred, possible):
        if rng.random() < 1 - (1 - len(cells) / len(POSITIONS)) ** 100:
            row, col = rng.choice(cells)
            type = rng.choice([0, 1, 2, 3])
            game.transmissions.append(Transmission(row, col, 1, type, from_siphon, from_schedule))
            return


def _is_possible(game: Game, position: Position) -> bool:
    return not (
        position == game.player.position
        or game.is_block(position)
        or game.enemies_at(position)
        or game.transmissions_at(position)
    )


def _can_be_shot(game: Game, position: Position) -> bool:
    player = game.player.position
    if position[0] != player[0] and position[1] != player[1]:
        return False
    return not any(
        game.is_block(each) or game.enemies_at(each) for each in between(player, position)
    )


def between(a: Position, b: Position) -> list[Position]:
    """The cells strictly between two cells of one row or column."""
    return [
        each
        for each in POSITIONS
        if each not in (a, b) and manhattan(a, each) + manhattan(each, b) == manhattan(a, b)
    ]
