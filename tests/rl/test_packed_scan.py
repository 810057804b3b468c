"""A scan that packs its carry into one array equals `jax.lax.scan`, to the bit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.envs.hackmatrix_env import HackMatrix
from hackmatrix.parallel import packed_scan
from tests.rl.rolled import Rollout, collect_rollout

BOARDS, STEPS = 5, 7
Carry = dict[str, jax.Array]


def first() -> Carry:
    """Leaves of all kinds: words, flags, and those that cannot be packed."""
    return {
        "word": jnp.arange(BOARDS, dtype=jnp.uint32) + jnp.uint32(0xFFFFFFFD),
        "number": jnp.arange(BOARDS, dtype=jnp.int32) - 2,
        "real": jnp.array([0.5, -0.0, jnp.inf, jnp.nan, 1e-42], jnp.float32),
        "flag": jnp.arange(BOARDS) % 2 == 0,
        "half": jnp.ones(BOARDS, jnp.bfloat16),
        "table": jnp.arange(BOARDS * 2.0).reshape(BOARDS, 2),
        "count": jnp.int32(0),
    }


def step(carry: Carry, given: jax.Array) -> tuple[Carry, jax.Array]:
    after = {
        "word": carry["word"] * 3 + given.astype(jnp.uint32),
        "number": jnp.where(carry["flag"], carry["number"] - given, -carry["number"]),
        "real": carry["real"],
        "flag": carry["flag"] ^ (carry["number"] > given),
        "half": carry["half"] * 2,
        "table": carry["table"] + given,
        "count": carry["count"] + carry["flag"].sum(dtype=jnp.int32),
    }
    return after, carry["number"]


def test_a_packed_scan_equals_a_plain_one_to_the_bit() -> None:
    given = jnp.arange(STEPS)
    expected = jax.lax.scan(step, first(), given)
    found = packed_scan.scan(step, first(), given, BOARDS)
    jax.tree.map(expect_the_same_bits, found, expected)


def expect_the_same_bits(found: jax.Array, expected: jax.Array) -> None:
    assert found.dtype == expected.dtype
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_words_and_flags_of_boards_are_carried_as_one_array() -> None:
    def scan(given: Any) -> Any:
        return packed_scan.scan(step, first(), given, BOARDS)

    (loop,) = (
        each
        for each in jax.make_jaxpr(scan)(jnp.arange(STEPS)).eqns
        if each.primitive.name == "scan"
    )
    assert loop.params["num_carry"] == 1 + 3


def test_a_rollout_with_a_packed_carry_is_the_same(toy_rollout: Rollout) -> None:
    found = collect_rollout(truncates=False, packs_small_arrays=True)
    for name in "after", "batch", "metrics":
        jax.tree.map(
            np.testing.assert_array_equal, getattr(found, name), getattr(toy_rollout, name)
        )


def test_boards_of_the_game_are_packed_on_gpus_and_not_on_cpus() -> None:
    assert HackMatrix().on("gpu").packs_small_arrays
    assert not HackMatrix().on("cpu").packs_small_arrays
