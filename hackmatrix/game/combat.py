"""Damage and destruction: what moves and programs do to enemies and transmissions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hackmatrix.game import digits, slots
from hackmatrix.game.cells import column_of, row_of
from hackmatrix.game.digits import Digits
from hackmatrix.game.outline import outlined
from hackmatrix.game.state import DAEMON, ENEMY_HP, Enemies, Transmissions

Array = jax.Array

# The functions below rely on this: a daemon has one hp more than every other kind.
assert ENEMY_HP == (2, 3, 2, 2)


def damage(enemies: Enemies, hit: Array, amount: Array) -> tuple[Enemies, Array]:
    """Takes `amount` hp from the enemies in the hit slots: the dead are removed, survivors are
    stunned. Returns the enemies and the killed slots.
    """
    most = max(ENEMY_HP)  # a larger number would not fit into the digits of hp
    amounts = digits.repeated(jnp.minimum(amount, most), len(enemies.hp), hit)
    survives, _ = digits.compare(enemies.hp, amounts)
    killed = hit & ~survives
    left, _ = digits.subtract(enemies.hp, amounts)
    return (
        enemies.replace(
            present=enemies.present & ~killed, hp=left, stunned=enemies.stunned | (hit & survives)
        ),
        killed,
    )


def counted(entries: Enemies | Transmissions, killed: Array) -> Array:
    """Returns how many of the killed slots count as kills: all but those from the schedule."""
    return slots.count(killed & ~entries.from_schedule)


def change_kind(enemies: Enemies, changed: Array, kind: Digits[Array]) -> tuple[Enemies, Array]:
    """Gives the enemies in the changed slots another kind; they keep the damage they have taken.
    Returns the enemies and the slots of those that die of it.
    """
    was_daemon = digits.equals(enemies.kind, DAEMON)
    becomes_daemon = digits.equals(kind, DAEMON)
    gains = changed & becomes_daemon & ~was_daemon
    loses = changed & was_daemon & ~becomes_daemon
    hp = digits.minus_one(digits.plus_one(enemies.hp, gains), loses)
    died = changed & ~digits.nonzero(hp)
    return (
        enemies.replace(
            present=enemies.present & ~died,
            kind=digits.select(changed, kind, enemies.kind),
            hp=hp,
        ),
        died,
    )


def full_hp(kind: Digits[Array]) -> Digits[Array]:
    """Returns the hp of new enemies of these kinds."""
    return digits.equals(kind, DAEMON), jnp.full_like(kind[0], slots.ALL)


@outlined
def nearest(enemies: Enemies, among: Array, cell: Array) -> Array:
    """Returns the slot in `among` nearest to the cell (Manhattan distance), the first on ties;
    empty for an empty set.
    """
    places = len(enemies.row)
    rows = digits.distance(enemies.row, digits.repeated(row_of(cell), places, slots.ALL))
    columns = digits.distance(enemies.column, digits.repeated(column_of(cell), places, slots.ALL))
    return slots.first(digits.least(digits.add(rows, columns), among))
