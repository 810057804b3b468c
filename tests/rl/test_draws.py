"""Draws: each has a key of its own, which nothing but its name decides."""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.rl.draws import Purpose, key_for, key_of_each, seed_key
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
