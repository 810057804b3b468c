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
    """The enemy turn of the active boards up to the enemies' steps, which decide whether the player
    dies. Where the step flag is on it is only cleared. Also returns the boards on which the turn is
    yet to end.

    On all boards, active or not, the holes are filled that the action left in the lists.
    """
    is_skipped = active & state.step
    active = active & ~state.step
    state = state.replace(step=state.step & ~is_skipped, turn=state.turn + active)
    enemies, transmissions = transmissions_arrive(active, state.enemies, state.transmissions)
    state = state.replace(enemies=enemies, transmissions=transmissions)
    return enemy_steps(state, key, active), active


def end_turn(state: State, key: Key, active: Array, new_stage: Array) -> State:
    """The rest of the enemy turn of the active boards. On boards with a new stage, none of which is
    active, the transmissions of that stage appear in the same pass.
    """
    state = transmissions_appear(state, key, active, jnp.where(new_stage, state.stage, 0))
    state = enemies_recover(state, active)
    return history.push(state, active)


@outlined
def transmissions_arrive(
    active: Array, enemies: Enemies, waiting: Transmissions
) -> tuple[Enemies, Transmissions]:
    """Transmissions with at most 1 turn become enemies at the end of the list, and the others count
    down. On all boards, active or not, the holes in both lists are filled.
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
    """The scheduled transmission appears when it is due, then those pending after siphons, then so
    many of a new stage.
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
