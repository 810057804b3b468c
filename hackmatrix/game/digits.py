"""Arithmetic on binary digits, for all members of a set at once.

A number for each cell of a board, or for each entry of a list, is a tuple of sets: digit i is the
set of those whose number has bit i, so the least significant digit comes first. Logic on the digits
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

from hackmatrix.game.tracing import ones

Array = jax.Array


class Members(Protocol):
    """What a set must be able to do."""

    def __and__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __xor__(self, other: Any, /) -> Any: ...
    def __invert__(self) -> Any: ...


SetT = TypeVar("SetT", bound=Members)
Digits = tuple[SetT, ...]
Bit = Array | np.ndarray | bool  # of JAX only where it is not known while tracing


def repeated(value: Array | int, places: int, members: SetT) -> Digits[SetT]:
    """The same number for each of these members, in so many digits; 0 for all others."""
    return tuple(_only_if(_bit(value, place), members) for place in range(places))


def read(numbers: Digits[SetT], member: SetT) -> Array:
    """The number of the only member of this set; 0 where the set is empty."""
    bits = (_some(digit & member).astype(jnp.int32) << place for place, digit in enumerate(numbers))
    return sum(bits, start=jnp.int32(0))


def write(numbers: Digits[SetT], members: SetT, value: Array | int) -> Digits[SetT]:
    """The numbers with those of these members replaced by the value."""
    return select(members, repeated(value, len(numbers), members), numbers)


def select(members: SetT, chosen: Digits[SetT], other: Digits[SetT]) -> Digits[SetT]:
    """The chosen numbers for these members, the other ones for the rest."""
    return tuple((c & members) | (o & ~members) for c, o in zip(chosen, other, strict=True))


def only(numbers: Digits[SetT], members: SetT) -> Digits[SetT]:
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
    """The members whose number is greater than their other number, and those where it is equal."""
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
    """The members of at least two of one to three sets."""
    if len(terms) == 1:
        return None
    a, b, *rest = terms
    return (a & b) | (rest[0] & (a ^ b)) if rest else a & b


def subtract(numbers: Digits[SetT], others: Digits[SetT]) -> tuple[Digits[SetT], SetT]:
    """The differences, and the members whose difference is below zero. From these the power of two
    that comes after the digits has been added.
    """
    (digit, other), *higher = zip(numbers, others, strict=True)
    differences, borrow = [digit ^ other], ~digit & other
    for digit, other in higher:
        differences.append(digit ^ other ^ borrow)
        borrow = (~digit & other) | (~(digit ^ other) & borrow)
    return tuple(differences), borrow


def distance(numbers: Digits[SetT], others: Digits[SetT]) -> Digits[SetT]:
    """By how much the numbers differ."""
    differences, negative = subtract(numbers, others)
    return plus_one(tuple(digit ^ negative for digit in differences), negative)


def plus_one(numbers: Digits[SetT], members: SetT) -> Digits[SetT]:
    """The numbers with those of these members increased by one; after the greatest comes 0."""
    carry, result = members, []
    for digit in numbers:
        result.append(digit ^ carry)
        carry = carry & digit
    return tuple(result)


def minus_one(numbers: Digits[SetT], members: SetT) -> Digits[SetT]:
    """The numbers with those of these members decreased by one; before 0 comes the greatest."""
    borrow, result = members, []
    for digit in numbers:
        result.append(digit ^ borrow)
        borrow = borrow & ~digit
    return tuple(result)


def at_most(numbers: Digits[SetT], places: int) -> Digits[SetT]:
    """The numbers in so many digits, the greatest of these where a number is still greater."""
    too_great = nonzero(numbers[places:])
    return tuple(digit | too_great for digit in numbers[:places])


def least(numbers: Digits[SetT], members: SetT) -> SetT:
    """The ones among these members whose number is the least."""
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
    """A digit of the value; of one that is known while tracing it is known then, too."""
    return (value >> place) & 1 != 0


def _alike(digit: SetT, bit: Bit) -> SetT:
    """The members whose digit is this one."""
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
    words = map(ones, jax.tree.leaves(members))
    return functools.reduce(operator.add, words).astype(jnp.int32)
