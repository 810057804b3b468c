"""Draws: each has a key of its own, which its name alone decides. Random orders: those of JAX."""

from __future__ import annotations

import re
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.rl.draws import Purpose, key_for, key_of_each, seed_key
from hackmatrix.rl.learning import shuffling
from hackmatrix.rl.learning.shuffling import random_order
from hackmatrix.rl.rollout import UpdateKey, step_keys

NUMBERS = jnp.arange(6, dtype=jnp.uint32)


def test_every_purpose_update_and_step_has_another_key() -> None:
    names = [*product((0, 1), Purpose, range(3), range(3))]
    keys = {
        tuple(jax.random.key_data(key_for(seed_key(seed), purpose, update, step)).tolist())
        for seed, purpose, update, step in names
    }
    assert len(keys) == len(names)


def test_the_purposes_have_the_numbers_that_saved_runs_go_on_with() -> None:
    assert {purpose.name: int(purpose) for purpose in Purpose} == {
        "PARAMETERS": 0, "RESET": 1, "ACT": 2, "STEP": 3, "SHUFFLE": 4, "PLAN": 5,
        "NEW_GAMES": 6, "CUT_OFF": 7,
    }  # fmt: skip


def test_a_seed_of_any_size_is_one_of_32_bits() -> None:
    for seed, same in ((2**32 + 3, 3), (-1, 2**32 - 1), (2**64, 0), (10**400, 0)):
        one, other = (jax.random.key_data(seed_key(each)) for each in (seed, same))
        np.testing.assert_array_equal(one, other)


def test_the_draws_of_a_board_depend_on_its_number_and_not_on_its_company() -> None:
    update_key = UpdateKey(seed_key(7), jnp.int32(4))
    act, happen = step_keys(update_key, 9, NUMBERS)
    some_act, some_happen = step_keys(update_key, 9, NUMBERS[4:2:-1])
    np.testing.assert_array_equal(jax.random.key_data(act)[4:2:-1], jax.random.key_data(some_act))
    np.testing.assert_array_equal(happen[4:2:-1], some_happen)
    assert len({tuple(key) for key in happen.tolist()}) == NUMBERS.size


def test_the_keys_of_many_numbers_are_those_of_each_one() -> None:
    key = seed_key(3)
    together = jax.random.key_data(key_of_each(key, NUMBERS))
    alone = [jax.random.key_data(jax.random.fold_in(key, number)) for number in NUMBERS]
    np.testing.assert_array_equal(together, np.stack(alone))


@pytest.mark.parametrize("count", [1, 2, 100, 4096, 70_000])
def test_an_order_is_that_of_jax(count: int) -> None:
    keys = jax.random.split(seed_key(5), 3)
    orders = jax.jit(jax.vmap(lambda key: random_order(key, count)))(keys)
    of_jax = jax.vmap(lambda key: jax.random.permutation(key, count))(keys)
    assert orders.dtype == of_jax.dtype
    np.testing.assert_array_equal(orders, of_jax)


def test_of_equal_words_the_first_one_comes_first_on_a_cpu_too() -> None:
    words = jax.random.randint(seed_key(1), (1000,), 0, 30).astype(jnp.uint32) << 27
    numbers = jax.random.permutation(seed_key(2), 1000)
    at_once = jax.jit(shuffling._sorted_at_once)(words, numbers)
    np.testing.assert_array_equal(at_once, shuffling._sorted(words, numbers))
    np.testing.assert_array_equal(at_once, numbers[np.argsort(words, kind="stable")])


def test_only_programs_for_a_cpu_sort_numbers_of_64_bits() -> None:
    traced = jax.jit(lambda key: random_order(key, 4096)).trace(seed_key(0))
    assert _sorted_in(traced, "cpu") == {"tensor<4096xui64>"}
    assert _sorted_in(traced, "tpu") == {"tensor<4096xui32>, tensor<4096xi32>"}


def _sorted_in(traced: jax.stages.Traced, platform: str) -> set[str]:
    """The types of what a program for this platform sorts."""
    program = traced.lower(lowering_platforms=(platform,)).as_text()
    return set(re.findall(r"stablehlo\.sort.*?\}\) : \((.*?)\)", program, re.DOTALL))
