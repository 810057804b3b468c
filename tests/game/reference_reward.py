"""The reward of an action, in its 15 parts (section 12)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from reference_effects import Events
from reference_state import (
    MAX_HP,
    POSITIONS,
    Game,
    Position,
    cross,
    distances_to,
    manhattan,
)

STAGE_COMPLETION = [1, 2, 4, 8, 16, 32, 64, 100]


@dataclass
class Reward:
    step_penalty: float = 0.0
    stage_completion: float = 0.0
    score_gain: float = 0.0
    kills: float = 0.0
    data_siphon: float = 0.0
    distance_shaping: float = 0.0
    victory: float = 0.0
    death_penalty: float = 0.0
    resource_gain: float = 0.0
    resource_holding: float = 0.0
    damage_penalty: float = 0.0
    hp_recovery: float = 0.0
    siphon_quality: float = 0.0
    program_waste: float = 0.0
    siphon_death_penalty: float = 0.0

    def parts(self) -> list[float]:
        return list(asdict(self).values())


def reward_of(before: Game, after: Game, action_name: str, events: Events) -> Reward:
    old, new = before.player, after.player
    reward = Reward(
        step_penalty=-0.01,
        score_gain=0.5 * (new.score - old.score),
        kills=0.3 * events.kills,
        data_siphon=1.0 * events.data_siphon,
        distance_shaping=0.05 * max(0, exit_distance(before) - exit_distance(after)),
        resource_gain=0.05 * (new.credits - old.credits) + 0.05 * (new.energy - old.energy),
        damage_penalty=-1.0 * max(0, old.hp - new.hp),
        hp_recovery=1.0 * max(0, new.hp - old.hp),
    )
    if events.exit_reached:
        reward.stage_completion = STAGE_COMPLETION[before.stage - 1]
        reward.distance_shaping = 0.05 * exit_distance(before)
        reward.resource_holding = 0.01 * (new.credits + new.energy)
        if after.stage > 8:
            reward.victory = 500 + 100 * new.score
    if new.hp == 0:
        reward.distance_shaping = 0.0
        reward.death_penalty = -0.5 * sum(STAGE_COMPLETION[: before.stage - 1])
        reward.siphon_death_penalty = -10.0 * siphon_enemy_beside_player(after)
    if action_name == "SIPHON":
        reward.siphon_quality = siphon_quality(before)
    if action_name == "RESET" and old.hp == MAX_HP - 1:
        reward.program_waste = -0.3
    return reward


def exit_distance(game: Game) -> int:
    """The length of the shortest path to the exit around blocks; 0 if there is none."""
    player = game.player.position

    def passable(position: Position) -> bool:
        return position == player or not game.is_block(position)

    return distances_to(game.exit, passable).get(player, 0)


def siphon_enemy_beside_player(game: Game) -> bool:
    player = game.player.position
    return any(
        enemy.from_siphon and manhattan(enemy.position, player) == 1 for enemy in game.enemies
    )


@dataclass
class Yield:
    """What siphoning at a place gives: points of each data block, and new programs."""

    credits: int
    energy: int
    points: list[int]
    programs: set[int]


def siphon_yield(game: Game, position: Position) -> Yield:
    cells = [game.cells[each] for each in cross(position)]
    if game.is_block(position):  # the player's own cell, after WARP
        cells = []
    cells = [cell for cell in cells if not cell.siphoned]
    return Yield(
        credits=sum(cell.credits for cell in cells if not cell.is_block),
        energy=sum(cell.energy for cell in cells if not cell.is_block),
        points=sorted(cell.value for cell in cells if cell.is_data),
        programs={cell.value for cell in cells if cell.is_program} - set(game.owned),
    )


def siphon_quality(game: Game) -> float:
    """0 if no other cell gives the same data and programs and more resources."""
    here = siphon_yield(game, game.player.position)
    better = [
        there
        for there in (siphon_yield(game, cell) for cell in _compared_cells(game, here))
        if (there.points, there.programs) == (here.points, here.programs)
        and there.credits >= here.credits
        and there.energy >= here.energy
        and there != here
    ]
    if not better:
        return 0.0
    missed_credits = max(each.credits for each in better) - here.credits
    missed_energy = max(each.energy for each in better) - here.energy
    return -0.5 * (0.05 * missed_credits + 0.05 * missed_energy)


def _compared_cells(game: Game, here: Yield) -> list[Position]:
    standable = [position for position in POSITIONS if not game.is_block(position)]
    if not here.points and not here.programs:
        return standable
    blocks = {
        position
        for position in cross(game.player.position)
        if game.is_block(position) and not game.cells[position].siphoned
    }
    return [position for position in standable if blocks <= set(cross(position))]
