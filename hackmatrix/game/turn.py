"""The enemy turn (section 7 of the rules)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hackmatrix.game import combat, few, history, slots, spawning
from hackmatrix.game.enemies import enemy_steps
from hackmatrix.game.outline import outlined
from hackmatrix.game.randomness import Key, Purpose
from hackmatrix.game.state import Enemies, State, Transmissions

Array = jax.Array
Lists = tuple[Array, Enemies, Transmissions]


def enemy_turn(state: State, key: Key, active: Array, lost: Array) -> State:
    """The enemy turn of the active boards; with the step flag on, only the flag is cleared.

    Also closes the ranks of the lists, on the boards where the action lost some of their entries.
    """
    stepping = active & state.step
    active = active & ~state.step
    state = state.replace(step=state.step & ~stepping)

    state = state.replace(turn=state.turn + active)
    state = transmissions_arrive(state, active, lost)
    state = enemy_steps(state, key, active)
    state = transmissions_appear(state, key, active)
    state = enemies_recover(state, active)
    return history.push(state, active)


def transmissions_arrive(state: State, active: Array, lost: Array) -> State:
    """Those with at most 1 turn become enemies at the end of the list; the others count down.

    The slots of the lost are cleared and the holes filled on the way, active or not.
    """

    def arrive(lists: Lists) -> Lists:
        active, enemies, transmissions = lists
        return active, *_arrive(active, enemies, transmissions)

    moving = lost | (active & (state.transmissions.present != 0))
    lists = (active, state.enemies, state.transmissions)
    _, enemies, transmissions = few.apply_once(moving, arrive, lists, max(64, active.shape[0] // 8))
    return state.replace(enemies=enemies, transmissions=transmissions)


@outlined
def _arrive(
    active: Array, enemies: Enemies, waiting: Transmissions
) -> tuple[Enemies, Transmissions]:
    more_than_one = jnp.zeros_like(waiting.present)
    for digit in waiting.turns[1:]:
        more_than_one = more_than_one | digit
    due = jnp.where(active, waiting.present & ~more_than_one, 0)
    staying = waiting.present & ~due
    arrivals = slots.squeeze(
        Enemies(
            present=due, row=waiting.row, column=waiting.column, kind=waiting.kind,
            hp=combat.full_hp(waiting.kind), disabled=due, stunned=jnp.zeros_like(due),
            from_siphon=waiting.from_siphon, from_schedule=waiting.from_schedule,
        ),
        due,
    )  # fmt: skip
    arrivals = slots.raise_by(arrivals, slots.count(enemies.present))
    counted = waiting.replace(turns=_count_down(waiting.turns, jnp.where(active, staying, 0)))
    return (
        jax.tree.map(jnp.bitwise_or, slots.squeeze(enemies, enemies.present), arrivals),
        slots.squeeze(counted, staying),
    )


def _count_down(turns: slots.Digits, where: Array) -> slots.Digits:
    borrow, result = where, []
    for digit in turns:
        result.append(digit ^ borrow)
        borrow = borrow & ~digit
    return tuple(result)


def transmissions_appear(state: State, key: Key, active: Array) -> State:
    """The scheduled one, when it is time, and those that siphoning brought about."""
    due = active & ~state.calm & (state.turn >= state.next_task)
    pending = jnp.where(active, state.pending, 0)
    state = spawning.spawn(
        state,
        key,
        {Purpose.SCHEDULED_SPAWN: due.astype(jnp.int32), Purpose.SIPHON_SPAWN: pending},
    )
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
