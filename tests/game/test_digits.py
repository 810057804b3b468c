"""Arithmetic on binary digits is arithmetic, in the cells of a board and in the slots of a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.game import digits, slots
from hackmatrix.game.cells import CELLS, EVERY, CellSet, constant

PLACES = 3
RANDOM = np.random.default_rng(0)


class Carrier(NamedTuple):
    """A kind of set, and how to write sets down and to read them."""

    size: int
    everything: Any
    of: Callable[[list[int]], Any]
    members: Callable[[Any], list[int]]


def slot_set(members: list[int]) -> Any:
    return jnp.uint32(sum(1 << member for member in members))


def slots_in(word: Any) -> list[int]:
    return [slot for slot in range(slots.CAPACITY) if int(word) >> slot & 1]


def cells_in(cells: CellSet) -> list[int]:
    bits = int(cells.low) | int(cells.high) << CELLS // 2
    return [cell for cell in range(CELLS) if bits >> cell & 1]


CARRIERS = {
    "cells": Carrier(CELLS, EVERY, constant, cells_in),
    "slots": Carrier(slots.CAPACITY, slots.ALL, slot_set, slots_in),
}


@pytest.fixture(params=CARRIERS)
def carrier(request: pytest.FixtureRequest) -> Carrier:
    return CARRIERS[request.param]


def drawn(carrier: Carrier, places: int = PLACES) -> np.ndarray:
    return RANDOM.integers(1 << places, size=carrier.size)


def written(carrier: Carrier, numbers: np.ndarray, places: int = PLACES) -> Any:
    return tuple(
        carrier.of(np.flatnonzero(numbers >> place & 1).tolist()) for place in range(places)
    )


def read(carrier: Carrier, numbers: Any) -> list[int]:
    found = np.zeros(carrier.size, int)
    for place, digit in enumerate(numbers):
        found[carrier.members(digit)] += 1 << place
    return found.tolist()


def some_members(carrier: Carrier) -> np.ndarray:
    return RANDOM.random(carrier.size) < 0.5


def test_sums_have_a_digit_more(carrier: Carrier) -> None:
    for places in (1, 2, PLACES, 5):
        left, right = drawn(carrier), drawn(carrier, places)
        total = digits.add(written(carrier, left), written(carrier, right, places))
        assert read(carrier, total) == (left + right).tolist()
        assert len(total) == max(PLACES, places) + 1


def test_differences_wrap_where_they_are_negative(carrier: Carrier) -> None:
    left, right = drawn(carrier), drawn(carrier)
    difference, negative = digits.subtract(written(carrier, left), written(carrier, right))
    assert read(carrier, difference) == ((left - right) % (1 << PLACES)).tolist()
    assert carrier.members(negative) == np.flatnonzero(left < right).tolist()


def test_distances_are_never_negative(carrier: Carrier) -> None:
    left, right = drawn(carrier), drawn(carrier)
    distance = digits.distance(written(carrier, left), written(carrier, right))
    assert read(carrier, distance) == abs(left - right).tolist()


def test_one_more_and_one_less_wrap_and_leave_the_others_alone(carrier: Carrier) -> None:
    numbers, chosen = drawn(carrier), some_members(carrier)
    members = carrier.of(np.flatnonzero(chosen).tolist())
    for change, by in ((digits.plus_one, 1), (digits.minus_one, -1)):
        changed = change(written(carrier, numbers), members)
        assert read(carrier, changed) == ((numbers + by * chosen) % (1 << PLACES)).tolist()


def test_numbers_that_are_too_great_become_the_greatest(carrier: Carrier) -> None:
    numbers = drawn(carrier, 5)
    bounded = digits.saturate(written(carrier, numbers, 5), PLACES)
    assert read(carrier, bounded) == np.minimum(numbers, 7).tolist()


def test_comparisons_are_made_member_by_member(carrier: Carrier) -> None:
    left, right = drawn(carrier), drawn(carrier)
    greater, equal = digits.compare(written(carrier, left), written(carrier, right))
    assert carrier.members(greater) == np.flatnonzero(left > right).tolist()
    assert carrier.members(equal) == np.flatnonzero(left == right).tolist()
    for value in (0, jnp.int32(5)):
        same = digits.equals(written(carrier, left), value)
        assert carrier.members(same) == np.flatnonzero(left == value).tolist()
    nonzero = digits.nonzero(written(carrier, left))
    assert carrier.members(nonzero) == np.flatnonzero(left).tolist()


def test_members_are_chosen_and_replaced(carrier: Carrier) -> None:
    left, right, chosen = drawn(carrier), drawn(carrier), some_members(carrier)
    members = carrier.of(np.flatnonzero(chosen).tolist())
    numbers, others = written(carrier, left), written(carrier, right)
    picked = np.where(chosen, left, right).tolist()
    assert read(carrier, digits.select(members, numbers, others)) == picked
    assert read(carrier, digits.masked(numbers, members)) == (left * chosen).tolist()
    assert read(carrier, digits.write(numbers, members, 5)) == np.where(chosen, 5, left).tolist()
    repeated = digits.repeated(jnp.int32(6), PLACES, members)
    assert read(carrier, repeated) == (6 * chosen).tolist()


def test_a_number_is_read_where_its_member_is(carrier: Carrier) -> None:
    numbers = drawn(carrier)
    for member in (0, 17, 18, 31):
        assert digits.read(written(carrier, numbers), carrier.of([member])) == numbers[member]
    assert digits.read(written(carrier, numbers), carrier.of([])) == 0


def test_sums_and_extremes_are_those_of_the_members(carrier: Carrier) -> None:
    numbers, chosen = drawn(carrier, 5), some_members(carrier)
    members = carrier.of(np.flatnonzero(chosen).tolist())
    held = written(carrier, numbers, 5)
    among = numbers[chosen]
    assert digits.total(held, members) == among.sum()
    assert digits.greatest(held, members) == among.max()
    least = np.flatnonzero(chosen & (numbers == among.min()))
    assert carrier.members(digits.least(held, members)) == least.tolist()
    nothing = carrier.of([])
    assert digits.total(held, nothing) == digits.greatest(held, nothing) == 0
    assert carrier.members(digits.least(held, nothing)) == []
