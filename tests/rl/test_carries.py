"""Scans that arrange their carry for an accelerator equal `jax.lax.scan`, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.envs.hackmatrix_env import HackMatrix
from hackmatrix.parallel import boards_last, packed_scan
from tests.rl.rolled import Rollout, collect_rollout

BOARDS, STEPS = 5, 7
Carry = dict[str, jax.Array]
Scan = Callable[[Any, Any, Any, int], tuple[Any, Any]]


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


@pytest.mark.parametrize("scan", [packed_scan.scan, boards_last.scan])
def test_a_scan_equals_a_plain_one_to_the_bit(scan: Scan) -> None:
    given = jnp.arange(STEPS)
    expected = jax.lax.scan(step, first(), given)
    found = scan(step, first(), given, BOARDS)
    jax.tree.map(expect_the_same_bits, found, expected)


def expect_the_same_bits(found: jax.Array, expected: jax.Array) -> None:
    assert found.dtype == expected.dtype
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_words_and_flags_of_boards_are_carried_as_one_array() -> None:
    assert len(carried_by(packed_scan.scan)) == 1 + 3


def test_tables_are_carried_with_the_boards_last() -> None:
    assert first()["table"].shape == (BOARDS, 2)
    assert (2, BOARDS) in carried_by(boards_last.scan)


def carried_by(scan: Scan) -> list[tuple[int, ...]]:
    """Returns the shapes of the arrays that the loop of a scan carries."""
    program = jax.make_jaxpr(lambda given: scan(step, first(), given, BOARDS))(jnp.arange(STEPS))
    (loop,) = (each for each in program.eqns if each.primitive.name == "scan")
    return [leaf.aval.shape for leaf in loop.outvars[: loop.params["num_carry"]]]


@pytest.mark.parametrize("is_packed", [True, False], ids=["packed", "boards last"])
def test_a_rollout_is_the_same_however_it_is_carried(
    toy_rollout: Rollout, is_packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = {each: Mock(side_effect=each.scan) for each in (boards_last, packed_scan)}
    for each, scan in scans.items():
        monkeypatch.setattr(each, "scan", scan)
    found = collect_rollout(
        truncates=False, packs_small_arrays=is_packed, puts_boards_last=not is_packed
    )
    assert [scan.called for scan in scans.values()] == [not is_packed, is_packed]
    for name in "after", "batch", "metrics":
        jax.tree.map(
            np.testing.assert_array_equal, getattr(found, name), getattr(toy_rollout, name)
        )


def test_boards_of_the_game_are_packed_on_gpus_and_last_on_tpus() -> None:
    game = {platform: HackMatrix().on(platform) for platform in ("cpu", "gpu", "tpu")}
    assert [name for name, env in game.items() if env.packs_small_arrays] == ["gpu"]
    assert [name for name, env in game.items() if env.puts_boards_last] == ["tpu"]
