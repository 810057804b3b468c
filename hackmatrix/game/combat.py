"""Hurting and destroying: what moves and programs do to enemies and transmissions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hackmatrix.game import slots
from hackmatrix.game.cells import SIZE, full_word
from hackmatrix.game.outline import outlined
from hackmatrix.game.slots import Digits
from hackmatrix.game.state import DAEMON, ENEMY_HP, Enemies, Transmissions

Array = jax.Array


def damage(enemies: Enemies, hit: Array, amount: Array) -> tuple[Enemies, Array]:
    """The hit slots lose `amount` hp: the dead leave, survivors are stunned. Also returns the
    killed slots.
    """
    low, high = enemies.hp
    at_most = jnp.minimum(amount, 3)
    amount_low, amount_high = full_word(at_most & 1 != 0), full_word(at_most & 2 != 0)
    survives = (high & ~amount_high) | (~(high ^ amount_high) & low & ~amount_low)
    killed = hit & ~survives
    hurt = hit & survives
    borrow = ~low & amount_low
    left = (low ^ amount_low, high ^ amount_high ^ borrow)
    return (
        enemies.replace(
            present=enemies.present & ~killed,
            hp=choose(hurt, left, enemies.hp),
            stunned=enemies.stunned | hurt,
        ),
        killed,
    )


def counted(entries: Enemies | Transmissions, killed: Array) -> Array:
    """How many of the killed slots count as kills: those not flagged from-schedule."""
    return slots.count(killed & ~entries.from_schedule)


def choose(chosen: Array, new: Digits, old: Digits) -> Digits:
    """Digits taken from `new` in the chosen slots."""
    return tuple((n & chosen) | (o & ~chosen) for n, o in zip(new, old, strict=True))


def change_kind(enemies: Enemies, changed: Array, kind: Digits) -> tuple[Enemies, Array]:
    """The changed slots get another type and keep the damage taken. Also returns the slots that die
    of it.
    """
    was_daemon = slots.equals(enemies.kind, DAEMON)
    becomes_daemon = slots.equals(kind, DAEMON)
    low, high = enemies.hp
    gains = changed & becomes_daemon & ~was_daemon
    loses = changed & was_daemon & ~becomes_daemon
    # ENEMY_HP differs by one between a daemon (3) and all others (2).
    hp_low = low ^ (gains | loses)
    hp_high = (high | (gains & low)) & ~(loses & ~low)
    died = changed & ~(hp_low | hp_high)
    return (
        enemies.replace(
            present=enemies.present & ~died,
            kind=choose(changed, kind, enemies.kind),
            hp=(hp_low, hp_high),
        ),
        died,
    )


def full_hp(kind: Digits) -> Digits:
    """The hp of new enemies of these types."""
    assert ENEMY_HP == (2, 3, 2, 2)
    return slots.equals(kind, DAEMON), jnp.full_like(kind[0], 0xFFFFFFFF)


@outlined
def nearest(enemies: Enemies, among: Array, cell: Array) -> Array:
    """The slot nearest to the cell (Manhattan), the first on ties; empty for an empty set."""
    row = _distances(enemies.row, cell // SIZE)
    column = _distances(enemies.column, cell % SIZE)
    carry = row[0] & column[0]
    digits = [row[0] ^ column[0]]
    for a, b in zip(row[1:], column[1:], strict=True):
        digits.append(a ^ b ^ carry)
        carry = (a & b) | (carry & (a ^ b))
    digits.append(carry)
    for digit in reversed(digits):
        nearer = among & ~digit
        among = jnp.where(nearer != 0, nearer, among)
    return slots.first(among)


def _distances(digits: Digits, value: Array) -> Digits:
    """|number - value| slot by slot, for numbers and values from 0 to 5."""
    borrow = jnp.uint32(0)
    difference = []
    for place, digit in enumerate(digits):
        bit = full_word(value >> place & 1 != 0)
        difference.append(digit ^ bit ^ borrow)
        borrow = (~digit & bit) | (~(digit ^ bit) & borrow)
    # Where it went below zero (borrow), negate: invert and add one.
    carry = borrow
    absolute = []
    for digit in difference:
        inverted = digit ^ borrow
        absolute.append(inverted ^ carry)
        carry = inverted & carry
    return tuple(absolute)
