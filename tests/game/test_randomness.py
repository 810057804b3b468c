"""Random draws: the words of threefry, and uniform choices."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.game.cells import constant
from hackmatrix.game.randomness import Key, as_key, pick_cell, pick_slot, uniform_below, words

UNLIKELY = 1e-6


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_random_words_are_those_of_threefry(
    key: tuple[int, int], counter: tuple[int, int], expected: tuple[int, int]
) -> None:
    high, low = (np.uint32(word) for word in key)
    purpose, index = counter
    drawn = words(Key(jnp.asarray(high), jnp.asarray(low)), purpose, jnp.uint32(index))
    assert tuple(int(word) for word in drawn) == expected


@pytest.mark.parametrize("given", [np.zeros(2, np.float32), np.zeros(3, np.uint32)])
def test_an_array_that_is_not_a_key_is_refused(given: np.ndarray) -> None:
    with pytest.raises(ValueError, match="keys must be threefry keys of 2 words"):
        as_key(jnp.asarray(given))


def random_words(number: int = 1 << 16) -> jax.Array:
    return jax.random.bits(jax.random.key(7), (number,))


def expect_uniform(drawn: np.ndarray, among: list[int]) -> None:
    from scipy.stats import chisquare  # slow, and each process of the tests imports this module

    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == sorted(among)
    assert len(among) == 1 or chisquare(counts).pvalue > UNLIKELY


@pytest.mark.parametrize("number", [1, 2, 3, 20, 36, 64, 255])
def test_numbers_below_a_bound_are_uniform(number: int) -> None:
    expect_uniform(np.asarray(uniform_below(random_words(), number)), list(range(number)))


@pytest.mark.parametrize("among", [[0], [31], [0, 1, 31], [3, 4, 9, 17, 30], list(range(32))])
def test_a_random_slot_of_a_set_is_uniform(among: list[int]) -> None:
    held = jnp.uint32(sum(1 << slot for slot in among))
    picked = np.asarray(jax.jit(partial(pick_slot, among=held))(random_words()))
    expect_uniform(picked, [1 << slot for slot in among])
    assert int(pick_slot(jnp.uint32(12345), jnp.uint32(0))) == 0


@pytest.mark.parametrize("among", [[0], [35], [17, 18], [0, 5, 30, 35], list(range(36))])
def test_a_random_cell_of_a_set_is_uniform(among: list[int]) -> None:
    picked = jax.jit(partial(pick_cell, among=constant(among)))(random_words())
    expect_uniform(np.asarray(picked), among)
