"""Draws: each has a key of its own, which depends on what is drawn and on nothing else."""

from __future__ import annotations

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.envs import hosted, make
from hackmatrix.rl import distributions
from hackmatrix.rl.draws import Purpose, fold_in, gumbel, key_for, permutation, seed_key
from hackmatrix.rl.rollout import UpdateKey

NUMBERS = jnp.arange(6, dtype=jnp.uint32)


def test_every_seed_purpose_update_and_step_has_its_own_key() -> None:
    names = [*product((0, 1), Purpose, range(3), range(3))]
    keys = {
        tuple(jax.random.key_data(key_for(seed_key(seed), purpose, update, step)).tolist())
        for seed, purpose, update, step in names
    }
    assert len(keys) == len(names)


def test_purposes_have_the_numbers_that_saved_runs_rely_on() -> None:
    assert {purpose.name: int(purpose) for purpose in Purpose} == {
        "PARAMETERS": 0, "RESET": 1, "ACT": 2, "STEP": 3, "SHUFFLE": 4, "PLAN": 5,
        "NEW_GAMES": 6, "CUT_OFF": 7,
    }  # fmt: skip


def test_a_seed_of_any_size_is_reduced_to_32_bits() -> None:
    for seed, same in ((2**32 + 3, 3), (-1, 2**32 - 1), (2**64, 0), (10**400, 0)):
        one, other = (jax.random.key_data(seed_key(each)) for each in (seed, same))
        np.testing.assert_array_equal(one, other)


def test_the_keys_of_a_board_depend_on_its_number_and_not_on_other_boards() -> None:
    update_key = UpdateKey(seed_key(7), jnp.int32(4))
    all_keys, some_keys = (
        jax.random.key_data(update_key.each(Purpose.ACT, 9, numbers))
        for numbers in (NUMBERS, NUMBERS[4:2:-1])
    )
    np.testing.assert_array_equal(all_keys[4:2:-1], some_keys)
    assert len({tuple(key) for key in all_keys.tolist()}) == NUMBERS.size


def test_a_key_is_the_seeds_folded_with_purpose_update_step_and_number() -> None:
    keys = UpdateKey(seed_key(7), jnp.int32(4)).each(Purpose.PLAN, 9, NUMBERS)
    expected = []
    for number in NUMBERS:
        key = seed_key(7)
        for each in (5, 4, 9, number):
            key = jax.random.fold_in(key, each)
        expected.append(key)
    _assert_same_keys(keys, expected)


def test_keys_folded_with_many_numbers_equal_those_of_jax() -> None:
    key = seed_key(3)
    keys = fold_in(key, NUMBERS)
    alone = [jax.random.fold_in(key, number) for number in NUMBERS]
    _assert_same_keys(keys, alone)
    _assert_same_keys(
        fold_in(keys, ~NUMBERS),
        [jax.random.fold_in(*both) for both in zip(alone, ~NUMBERS, strict=True)],
    )
    number = 2**32 - 7
    _assert_same_keys(fold_in(keys, number), [jax.random.fold_in(each, number) for each in alone])


def test_a_turn_of_a_hosted_game_draws_from_its_key_folded_with_its_number() -> None:
    raw = jax.random.key_data(fold_in(seed_key(4), NUMBERS))
    expected = jax.vmap(jax.random.fold_in)(jax.random.wrap_key_data(raw), ~NUMBERS)
    with jax.default_prng_impl("rbg"):
        key = hosted.keys_of_turns(raw, ~NUMBERS)
    for number, word in enumerate((key.high, key.low)):
        np.testing.assert_array_equal(word, jax.random.key_data(expected)[:, number])


def test_episodes_of_gymnax_do_not_depend_on_the_default_generator_of_jax() -> None:
    raw = jax.random.key_data(fold_in(seed_key(4), NUMBERS))
    env = make("gymnax:CartPole-v1")

    def play() -> list[np.ndarray]:
        def both() -> Any:
            boards = env.reset(raw)
            return boards, env.step(raw, boards, jnp.zeros(NUMBERS.shape, jnp.int32))

        return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(both)())]

    expected = play()
    with jax.default_prng_impl("rbg"):
        jax.tree.map(np.testing.assert_array_equal, play(), expected)


def _assert_same_keys(keys: jax.Array, expected: list[jax.Array]) -> None:
    words = [jax.random.key_data(key) for key in expected]
    np.testing.assert_array_equal(jax.random.key_data(keys), np.stack(words))


def test_noise_and_actions_equal_those_that_jax_draws() -> None:
    keys = fold_in(seed_key(5), jnp.arange(4096, dtype=jnp.uint32))
    logits = jax.random.normal(seed_key(6), (keys.size, 5))
    noise = jax.vmap(lambda key: jax.random.gumbel(key, (5,)))(keys)
    np.testing.assert_allclose(jax.jit(gumbel, static_argnums=1)(keys, 5), noise, rtol=2e-6)
    choices = distributions.masked(logits, logits < 1)
    np.testing.assert_array_equal(
        jax.jit(distributions.sample)(choices, keys),
        jax.vmap(jax.random.categorical)(keys, choices.logits),
    )


@pytest.mark.parametrize("number", [1, 5, 1000, 3000])  # sorted never, once, once and twice
def test_permutations_equal_those_that_jax_draws(number: int) -> None:
    keys = fold_in(seed_key(8), NUMBERS)
    expected = jax.vmap(lambda key: jax.random.permutation(key, number))(keys)
    np.testing.assert_array_equal(jax.jit(permutation, static_argnums=1)(keys, number), expected)
    np.testing.assert_array_equal(permutation(keys[2], number), expected[2])
