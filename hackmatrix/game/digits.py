"""Bit-sliced arithmetic: binary digits, for all members of a set at once.

The numbers of all cells of a board, or of all entries of a list, are one tuple of sets: digit i is
the set of members whose number has bit i, least significant first. Bitwise logic on the digits
computes with all numbers at once. The sets are `CellSet`s or words over the slots of a list; every
function here takes both.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.game.tracing import popcount

Array = jax.Array


class Members(Protocol):
    """The operations that a set must support."""

    def __and__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __xor__(self, other: Any, /) -> Any: ...
    def __invert__(self) -> Any: ...


SetT = TypeVar("SetT", bound=Members)
Digits = tuple[SetT, ...]
Bit = Array | np.ndarray | bool  # a JAX array only if unknown while tracing


def repeated(value: Array | int, places: int, members: SetT) -> Digits[SetT]:
    """Returns the value as the number of each member, in `places` digits; 0 for all others."""
    return tuple(_only_if(_bit(value, place), members) for place in range(places))


def read(numbers: Digits[SetT], member: SetT) -> Array:
    """Returns the number of the single member of this set; 0 where the set is empty."""
    bits = (_some(digit & member).astype(jnp.int32) << place for place, digit in enumerate(numbers))
    return sum(bits, start=jnp.int32(0))


def write(numbers: Digits[SetT], members: SetT, value: Array | int) -> Digits[SetT]:
    """Returns the numbers, with those of these members replaced by the value."""
    return select(members, repeated(value, len(numbers), members), numbers)


def select(members: SetT, chosen: Digits[SetT], other: Digits[SetT]) -> Digits[SetT]:
    """Returns the chosen numbers for these members, and the other numbers for the rest."""
    return tuple((c & members) | (o & ~members) for c, o in zip(chosen, other, strict=True))


def masked(numbers: Digits[SetT], members: SetT) -> Digits[SetT]:
    """The numbers of these members, and 0 for the rest."""
    return tuple(digit & members for digit in numbers)


def nonzero(numbers: Digits[SetT]) -> SetT:
    """The members whose number is not 0."""
    return functools.reduce(operator.or_, numbers)


def equals(numbers: Digits[SetT], value: Array | np.ndarray | int) -> SetT:
    """The members whose number is this value."""
    same = (_alike(digit, _bit(value, place)) for place, digit in enumerate(numbers))
    return functools.reduce(operator.and_, same)


def compare(numbers: Digits[SetT], others: Digits[SetT]) -> tuple[SetT, SetT]:
    """Returns the members whose number is greater than in `others`, and those where it is equal."""
    *lower, (digit, other) = zip(numbers, others, strict=True)
    greater, equal = digit & ~other, ~(digit ^ other)
    for digit, other in reversed(lower):
        greater = greater | (equal & digit & ~other)
        equal = equal & ~(digit ^ other)
    return greater, equal


def add(numbers: Digits[SetT], others: Digits[SetT]) -> Digits[SetT]:
    """The sums, one digit longer than the longer of the two."""
    shorter, longer = sorted((numbers, others), key=len)
    sums, carry = [], None
    for place, digit in enumerate(longer):
        terms = [digit, *shorter[place : place + 1], *([] if carry is None else [carry])]
        sums.append(functools.reduce(operator.xor, terms))
        carry = _at_least_two(terms)
    return tuple(sums) if carry is None else (*sums, carry)


def _at_least_two(terms: list[SetT]) -> SetT | None:
    """Returns the members of at least two of one to three sets; None for a single set."""
    if len(terms) == 1:
        return None
    a, b, *rest = terms
    return (a & b) | (rest[0] & (a ^ b)) if rest else a & b


def subtract(numbers: Digits[SetT], others: Digits[SetT]) -> tuple[Digits[SetT], SetT]:
    """Returns the differences modulo 2**len(numbers), and the members where they are negative."""
    (digit, other), *higher = zip(numbers, others, strict=True)
    differences, borrow = [digit ^ other], ~digit & other
    for digit, other in higher:
        differences.append(digit ^ other ^ borrow)
        borrow = (~digit & other) | (~(digit ^ other) & borrow)
    return tuple(differences), borrow


def distance(numbers: Digits[SetT], others: Digits[SetT]) -> Digits[SetT]:
    """Returns the absolute differences of the numbers."""
    differences, negative = subtract(numbers, others)
    return plus_one(tuple(digit ^ negative for digit in differences), negative)


def plus_one(numbers: Digits[SetT], members: SetT) -> Digits[SetT]:
    """Returns the numbers, with those of these members increased by one, wrapping around to 0."""
    carry, result = members, []
    for digit in numbers:
        result.append(digit ^ carry)
        carry = carry & digit
    return tuple(result)


def minus_one(numbers: Digits[SetT], members: SetT) -> Digits[SetT]:
    """Returns the numbers, with those of these members decreased by one, wrapping around at 0."""
    borrow, result = members, []
    for digit in numbers:
        result.append(digit ^ borrow)
        borrow = borrow & ~digit
    return tuple(result)


def saturate(numbers: Digits[SetT], places: int) -> Digits[SetT]:
    """Returns the numbers in `places` digits, clipped to the largest that fits."""
    too_great = nonzero(numbers[places:])
    return tuple(digit | too_great for digit in numbers[:places])


def least(numbers: Digits[SetT], members: SetT) -> SetT:
    """Returns the members, among these, that have the least number."""
    for digit in reversed(numbers):
        members = _if_some(members & ~digit, members)
    return members


def greatest(numbers: Digits[SetT], members: SetT) -> Array:
    """The greatest number of these members; 0 where there are none."""
    best = jnp.int32(0)
    for place in reversed(range(len(numbers))):
        with_bit = members & numbers[place]
        best = best + (_some(with_bit).astype(jnp.int32) << place)
        members = _if_some(with_bit, members)
    return best


def total(numbers: Digits[SetT], members: SetT) -> Array:
    """The sum of the numbers of these members."""
    counts = (_count(digit & members) << place for place, digit in enumerate(numbers))
    return sum(counts, start=jnp.int32(0))


def _bit(value: Array | np.ndarray | int, place: int) -> Bit:
    """Returns a digit of the value; it is known while tracing if the value is."""
    return (value >> place) & 1 != 0


def _alike(digit: SetT, bit: Bit) -> SetT:
    """Returns the members whose digit equals the bit."""
    if isinstance(bit, bool):
        return digit if bit else ~digit
    return jax.tree.map(functools.partial(jnp.where, bit), digit, ~digit)


def _only_if(condition: Bit, members: SetT) -> SetT:
    return jax.tree.map(lambda word: jnp.where(condition, word, np.uint32(0)), members)


def _if_some(preferred: SetT, other: SetT) -> SetT:
    """The preferred set where it has members, else the other one."""
    return jax.tree.map(functools.partial(jnp.where, _some(preferred)), preferred, other)


def _some(members: Members) -> Array:
    return functools.reduce(operator.or_, jax.tree.leaves(members)) != 0


def _count(members: Members) -> Array:
    words = map(popcount, jax.tree.leaves(members))
    return functools.reduce(operator.add, words).astype(jnp.int32)
