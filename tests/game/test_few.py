"""A rule applied to a few boards at a time has the result of applying it to all boards at once."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.game import few
from hackmatrix.game.few import Width

Array = jax.Array
WIDTH = Width(one_of=8, least=4)
# The first two are processed all at once, the next three `least` at a time, the last by eighths.
for_numbers_of_boards = pytest.mark.parametrize("boards", [1, 8, 9, 32, 33, 80])
SHARES = 0, 0.1, 1  # of the boards that need the rule


def counters(boards: int, share: float) -> np.ndarray:
    """How often each board needs the rule."""
    random = np.random.default_rng(boards)
    return np.where(random.random(boards) < share, random.integers(1, 6, boards), 0)


def is_needed(work: tuple[Array, Array]) -> Array:
    return work[0] > 0


def once(work: tuple[Array, Array]) -> tuple[Array, Array]:
    """The rule: each board that needs it needs it once less."""
    left, done = work
    return jnp.maximum(left - 1, 0), done + (left > 0)


def at_start(left: np.ndarray) -> tuple[Array, Array]:
    return jnp.asarray(left), jnp.zeros(left.shape, int)


def check(found: Any, left: Any, done: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, found, (left, done))


@pytest.mark.parametrize(
    ("boards", "at_a_time"), [(1, 1), (8, 8), (9, 4), (32, 4), (40, 5), (800, 100)]
)
def test_boards_are_gathered_if_there_are_more_than_twice_the_width(
    boards: int, at_a_time: int
) -> None:
    assert WIDTH.among(boards) == at_a_time


@for_numbers_of_boards
def test_a_rule_is_applied_once_to_the_boards_that_need_it(boards: int) -> None:
    apply = jax.jit(lambda needed, work: few.apply_once(needed, once, work, WIDTH))
    for share in SHARES:
        left = counters(boards, share)
        check(apply(left > 2, at_start(left)), left - (left > 2), left > 2)


@for_numbers_of_boards
def test_a_rule_is_applied_until_no_board_needs_it(boards: int) -> None:
    def in_all_ways(work: tuple[Array, Array]) -> list[Any]:
        repeated = (few.repeat(is_needed, once, work, WIDTH, each) for each in (False, True))
        return [few.apply(is_needed, once, work, WIDTH), *repeated]

    compiled = jax.jit(in_all_ways)
    for share in SHARES:
        left = counters(boards, share)
        for found in compiled(at_start(left)):
            check(found, 0 * left, left)


def test_a_rest_of_boards_is_left_to_the_next_rule() -> None:
    left = np.ones(80, int)
    rest = Width(one_of=4, least=4)
    after, done = few.apply(is_needed, once, at_start(left), WIDTH, rest)
    assert (after + done == left).all()
    assert 0 < after.sum() <= rest.among(80)


def test_a_rule_is_not_even_traced_if_the_rest_covers_all_boards() -> None:
    left = np.ones(8, int)
    check(few.apply(is_needed, Mock(), at_start(left), WIDTH, WIDTH), left, 0 * left)
