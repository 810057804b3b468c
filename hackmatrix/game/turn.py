"""The enemy turn (section 7 of the rules)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hackmatrix.game import combat, digits, history, slots, spawning
from hackmatrix.game.enemies import enemy_steps
from hackmatrix.game.outline import outlined
from hackmatrix.game.randomness import Key, Purpose
from hackmatrix.game.state import Enemies, State, Transmissions

Array = jax.Array


def enemy_turn(state: State, key: Key, active: Array) -> tuple[State, Array]:
    """Runs the enemy turn of the active boards up to and including the enemies' steps, which
    decide whether the player dies. Where STEP is in force, only its flag is cleared. Also returns
    the boards on which the turn is still to be ended.

    On all boards, active or not, it fills the holes that the action left in the lists.
    """
    is_skipped = active & state.step
    active = active & ~state.step
    state = state.replace(step=state.step & ~is_skipped, turn=state.turn + active)
    enemies, transmissions = transmissions_arrive(active, state.enemies, state.transmissions)
    state = state.replace(enemies=enemies, transmissions=transmissions)
    return enemy_steps(state, key, active), active


def end_turn(state: State, key: Key, active: Array, new_stage: Array) -> State:
    """Runs the rest of the enemy turn of the active boards. The same pass spawns the transmissions
    of new stages on boards that have one, none of which is active.
    """
    state = transmissions_appear(state, key, active, jnp.where(new_stage, state.stage, 0))
    state = enemies_recover(state, active)
    return history.push(state, active)


@outlined
def transmissions_arrive(
    active: Array, enemies: Enemies, waiting: Transmissions
) -> tuple[Enemies, Transmissions]:
    """Makes transmissions with at most 1 turn enemies, at the end of that list, and counts the
    others down. On all boards, active or not, it fills the holes in both lists.
    """
    more_than_one = digits.nonzero(waiting.turns[1:])
    due = jnp.where(active, waiting.present & ~more_than_one, 0)
    staying = waiting.present & ~due
    arrivals = slots.squeeze(
        Enemies(
            present=due,
            row=waiting.row,
            column=waiting.column,
            kind=waiting.kind,
            hp=combat.full_hp(waiting.kind),
            disabled=due,
            stunned=jnp.zeros_like(due),
            from_siphon=waiting.from_siphon,
            from_schedule=waiting.from_schedule,
        ),
        due,
    )
    arrivals = slots.raise_by(arrivals, slots.count(enemies.present))
    counting = jnp.where(active, staying, 0)
    counted = waiting.replace(turns=digits.minus_one(waiting.turns, counting))
    return (
        jax.tree.map(jnp.bitwise_or, slots.squeeze(enemies, enemies.present), arrivals),
        slots.squeeze(counted, staying),
    )


def transmissions_appear(state: State, key: Key, active: Array, of_stage: Array) -> State:
    """Spawns the scheduled transmission where it is due, then those pending after siphons, then
    `of_stage` for a new stage.
    """
    due = active & ~state.calm & (state.turn >= state.next_task)
    pending = jnp.where(active, state.pending, 0)
    numbers = {
        Purpose.SCHEDULED_SPAWN: due.astype(jnp.int32),
        Purpose.SIPHON_SPAWN: pending,
        Purpose.STAGE_SPAWN: of_stage,
    }
    state = spawning.spawn(state, key, numbers)
    return state.replace(
        next_task=jnp.where(due, state.turn + state.interval, state.next_task),
        pending=state.pending - pending,
    )


def enemies_recover(state: State, active: Array) -> State:
    enemies = state.enemies
    return state.replace(
        enemies=enemies.replace(
            disabled=jnp.where(active, 0, enemies.disabled),
            stunned=jnp.where(active, 0, enemies.stunned),
        )
    )
