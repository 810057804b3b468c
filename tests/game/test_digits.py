"""Bit-sliced arithmetic equals NumPy's, for the cells of a board and for the slots of a list."""

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
    """A kind of set, how to make one from its members, and how to list its members."""

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


def random_numbers(carrier: Carrier, places: int = PLACES) -> np.ndarray:
    return RANDOM.integers(1 << places, size=carrier.size)


def in_digits(carrier: Carrier, numbers: np.ndarray, places: int = PLACES) -> Any:
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


def test_sums_have_one_more_digit(carrier: Carrier) -> None:
    for places in (1, 2, PLACES, 5):
        left, right = random_numbers(carrier), random_numbers(carrier, places)
        total = digits.add(in_digits(carrier, left), in_digits(carrier, right, places))
        assert read(carrier, total) == (left + right).tolist()
        assert len(total) == max(PLACES, places) + 1


def test_negative_differences_wrap(carrier: Carrier) -> None:
    left, right = random_numbers(carrier), random_numbers(carrier)
    difference, negative = digits.subtract(in_digits(carrier, left), in_digits(carrier, right))
    assert read(carrier, difference) == ((left - right) % (1 << PLACES)).tolist()
    assert carrier.members(negative) == np.flatnonzero(left < right).tolist()


def test_distances_are_never_negative(carrier: Carrier) -> None:
    left, right = random_numbers(carrier), random_numbers(carrier)
    distance = digits.distance(in_digits(carrier, left), in_digits(carrier, right))
    assert read(carrier, distance) == abs(left - right).tolist()


def test_plus_one_and_minus_one_wrap_and_change_only_the_chosen_members(carrier: Carrier) -> None:
    numbers, chosen = random_numbers(carrier), some_members(carrier)
    members = carrier.of(np.flatnonzero(chosen).tolist())
    for change, by in ((digits.plus_one, 1), (digits.minus_one, -1)):
        changed = change(in_digits(carrier, numbers), members)
        assert read(carrier, changed) == ((numbers + by * chosen) % (1 << PLACES)).tolist()


def test_saturate_caps_numbers_at_the_greatest_that_fits(carrier: Carrier) -> None:
    numbers = random_numbers(carrier, 5)
    bounded = digits.saturate(in_digits(carrier, numbers, 5), PLACES)
    assert read(carrier, bounded) == np.minimum(numbers, 7).tolist()


def test_comparisons_are_made_member_by_member(carrier: Carrier) -> None:
    left, right = random_numbers(carrier), random_numbers(carrier)
    greater, equal = digits.compare(in_digits(carrier, left), in_digits(carrier, right))
    assert carrier.members(greater) == np.flatnonzero(left > right).tolist()
    assert carrier.members(equal) == np.flatnonzero(left == right).tolist()
    for value in (0, jnp.int32(5)):
        same = digits.equals(in_digits(carrier, left), value)
        assert carrier.members(same) == np.flatnonzero(left == value).tolist()
    nonzero = digits.nonzero(in_digits(carrier, left))
    assert carrier.members(nonzero) == np.flatnonzero(left).tolist()


def test_numbers_of_chosen_members_are_selected_masked_and_written(carrier: Carrier) -> None:
    left, right, chosen = random_numbers(carrier), random_numbers(carrier), some_members(carrier)
    members = carrier.of(np.flatnonzero(chosen).tolist())
    numbers, others = in_digits(carrier, left), in_digits(carrier, right)
    picked = np.where(chosen, left, right).tolist()
    assert read(carrier, digits.select(members, numbers, others)) == picked
    assert read(carrier, digits.masked(numbers, members)) == (left * chosen).tolist()
    assert read(carrier, digits.write(numbers, members, 5)) == np.where(chosen, 5, left).tolist()
    repeated = digits.repeated(jnp.int32(6), PLACES, members)
    assert read(carrier, repeated) == (6 * chosen).tolist()


def test_the_number_of_one_member_is_read(carrier: Carrier) -> None:
    numbers = random_numbers(carrier)
    for member in (0, 17, 18, 31):
        assert digits.read(in_digits(carrier, numbers), carrier.of([member])) == numbers[member]
    assert digits.read(in_digits(carrier, numbers), carrier.of([])) == 0


def test_total_greatest_and_least_consider_only_the_given_members(carrier: Carrier) -> None:
    numbers, chosen = random_numbers(carrier, 5), some_members(carrier)
    members = carrier.of(np.flatnonzero(chosen).tolist())
    held = in_digits(carrier, numbers, 5)
    among = numbers[chosen]
    assert digits.total(held, members) == among.sum()
    assert digits.greatest(held, members) == among.max()
    least = np.flatnonzero(chosen & (numbers == among.min()))
    assert carrier.members(digits.least(held, members)) == least.tolist()
    nothing = carrier.of([])
    assert digits.total(held, nothing) == digits.greatest(held, nothing) == 0
    assert carrier.members(digits.least(held, nothing)) == []
