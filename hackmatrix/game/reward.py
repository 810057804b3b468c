"""The reward and its 15 parts (section 12 of the rules).

Parts are integers in units of 1/200, so that their sum is exact and the same on every backend.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game import cells, several, slots
from hackmatrix.game.cells import LONGEST_PATH, CellSet
from hackmatrix.game.outline import outlined
from hackmatrix.game.programs import Program
from hackmatrix.game.state import STAGES, Effects, Outcome, State

Array = jax.Array

UNITS = 200
STEP_UNITS = 10  # for a step towards the exit
PARTS = (
    "step_penalty", "stage_completion", "score_gain", "kills", "data_siphon", "distance_shaping",
    "victory", "death_penalty", "resource_gain", "resource_holding", "damage_penalty",
    "hp_recovery", "siphon_quality", "program_waste", "siphon_death_penalty",
)  # fmt: skip
# For completing stages 1 to 8; index 0 is unused.
_COMPLETION = np.array([0, 1, 2, 4, 8, 16, 32, 64, 100], np.int32)


def distances_to_exit(*states: State) -> list[Array]:
    """Returns the length of a shortest way from the player to the exit around blocks, for each of
    the states; 0 where there is none.
    """
    places = [(state.player.cell, state.exit_cell, state.board.blocks) for state in states]
    return several.for_all(_distance, *places)


@outlined
def _distance(start: Array, end: Array, blocks: CellSet) -> Array:
    goal = cells.at(end)
    free = (cells.EVERY - blocks) | goal

    def spread(waves_and_reached: tuple[Array, CellSet]) -> tuple[Array, CellSet]:
        waves, reached = waves_and_reached
        return waves + ~(reached & goal).any(), cells.spread(reached, free)

    begin = jnp.zeros_like(start), cells.at(start)
    waves, reached = several.repeated(LONGEST_PATH, spread, begin)
    return jnp.where((reached & goal).any(), waves, 0)


def reward_units(
    before: State,
    after: State,
    *,
    action: Array,
    valid: Array,
    completed: Array,
    died: Array,
    effects: Effects,
    closer: Array,
) -> dict[str, Array]:
    """Returns the parts in units of 1/200; all are 0 for an invalid action."""
    old, new = before.player, after.player
    won = completed & (before.stage == STAGES)
    completion = several.look_up(_COMPLETION, before.stage)
    gained = new.hp - old.hp
    resources = new.credits - old.credits + new.energy - old.energy
    units = {
        "step_penalty": -2 * valid,
        "stage_completion": jnp.where(completed, 200 * completion, 0),
        "score_gain": 100 * (new.score - old.score),
        "kills": 60 * effects.kills,
        "data_siphon": 200 * effects.picked,
        "distance_shaping": STEP_UNITS * jnp.where(died, 0, closer),
        "victory": jnp.where(won, 100_000 + 20_000 * new.score, 0),
        "death_penalty": jnp.where(died, -100 * ((1 << (before.stage - 1)) - 1), 0),
        "resource_gain": 10 * resources,
        "resource_holding": jnp.where(completed, 2 * (new.credits + new.energy), 0),
        "damage_penalty": 200 * jnp.minimum(gained, 0),
        "hp_recovery": 200 * jnp.maximum(gained, 0),
        "siphon_quality": -5 * effects.missed,
        "program_waste": jnp.where((action == Program.RESET) & (old.hp == 2), -60, 0),
        "siphon_death_penalty": jnp.where(died & _siphoned_enemy_adjacent(after), -2000, 0),
    }
    return {name: jnp.where(valid, units[name], 0) for name in PARTS}


def _siphoned_enemy_adjacent(state: State) -> Array:
    enemies = state.enemies
    beside = slots.beside(enemies, state.player.cell)
    return enemies.present & enemies.from_siphon & beside != 0


def in_floats(outcome: Outcome) -> Outcome:
    """Converts the reward and its parts from whole units to float32."""
    units = outcome.reward, outcome.parts
    total, parts = jax.tree.map(lambda part: part.astype(jnp.float32) / UNITS, units)
    return outcome.replace(reward=total, parts=parts)
