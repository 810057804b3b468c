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


def enemy_turn(state: State, key: Key, active: Array) -> State:
    """The enemy turn of the active boards; with the step flag on, only the flag is cleared."""
    stepping = active & state.step
    active = active & ~state.step
    state = state.replace(step=state.step & ~stepping)

    state = state.replace(turn=state.turn + active)
    state = transmissions_arrive(state, active)
    state = enemy_steps(state, key, active)
    state = spawn_scheduled(state, key, active)
    state = spawn_pending(state, key, active)
    state = enemies_recover(state, active)
    return history.push(state, active)


def transmissions_arrive(state: State, active: Array) -> State:
    """Those with at most 1 turn become enemies at the end of the list; the others count down."""
    waits = active & (state.transmissions.present != 0)
    enemies, transmissions = few.apply_once(
        waits, _arrive, (state.enemies, state.transmissions), max(64, active.shape[0] // 8)
    )
    return state.replace(enemies=enemies, transmissions=transmissions)


@outlined
def _arrive(lists: tuple[Enemies, Transmissions]) -> tuple[Enemies, Transmissions]:
    enemies, waiting = lists
    more_than_one = jnp.zeros_like(waiting.present)
    for digit in waiting.turns[1:]:
        more_than_one = more_than_one | digit
    due = waiting.present & ~more_than_one
    arrivals = slots.squeeze(
        Enemies(
            present=due, row=waiting.row, column=waiting.column, kind=waiting.kind,
            hp=combat.full_hp(waiting.kind), disabled=due, stunned=jnp.zeros_like(due),
            from_siphon=waiting.from_siphon, from_schedule=waiting.from_schedule,
        ),
        due,
    )  # fmt: skip
    arrivals = slots.raise_by(arrivals, slots.count(enemies.present))
    staying = waiting.replace(turns=_count_down(waiting.turns, waiting.present & ~due))
    return (
        jax.tree.map(jnp.bitwise_or, enemies, arrivals),
        slots.squeeze(staying, waiting.present & ~due),
    )


def _count_down(turns: slots.Digits, where: Array) -> slots.Digits:
    borrow, result = where, []
    for digit in turns:
        result.append(digit ^ borrow)
        borrow = borrow & ~digit
    return tuple(result)


def spawn_scheduled(state: State, key: Key, active: Array) -> State:
    due = active & ~state.calm & (state.turn >= state.next_task)
    state = spawning.spawn(
        state, key, Purpose.SCHEDULED_SPAWN, due.astype(jnp.int32), from_schedule=True
    )
    return state.replace(next_task=jnp.where(due, state.turn + state.interval, state.next_task))


def spawn_pending(state: State, key: Key, active: Array) -> State:
    number = jnp.where(active, state.pending, 0)
    state = spawning.spawn(state, key, Purpose.SIPHON_SPAWN, number, from_siphon=True)
    return state.replace(pending=state.pending - number)


def enemies_recover(state: State, active: Array) -> State:
    enemies = state.enemies
    return state.replace(
        enemies=enemies.replace(
            disabled=jnp.where(active, 0, enemies.disabled),
            stunned=jnp.where(active, 0, enemies.stunned),
        )
    )
