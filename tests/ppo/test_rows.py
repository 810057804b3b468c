"""The rows of a minibatch, which programs for TPUs gather together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.game.tracing import program_for
from hackmatrix.rl.learning.rows import rows_of

SAMPLES = 30
ROWS = np.array([7, 0, 29, 7, 12])
NARROW = {
    "words": (5,), "valid": (), "action": (), "log_prob": (), "policy": (3, 2),
}  # fmt: skip
TYPES = {"words": np.uint32, "valid": np.uint32, "action": np.int32}


@pytest.fixture(scope="module")
def samples() -> dict[str, Any]:
    """Samples with all kinds of numbers, also NaN and -0; three are not gathered with others."""
    random = np.random.default_rng(0)
    narrow = {
        name: random.integers(0, 2**32, (SAMPLES, *shape), np.uint32).view(TYPES.get(name, "f4"))
        for name, shape in NARROW.items()
    }
    narrow["log_prob"][ROWS[0]], narrow["log_prob"][ROWS[1]] = np.nan, -0.0
    wide = random.random((SAMPLES, 10, 20), np.float32)
    flags = random.random(SAMPLES) < 0.5
    halves = jnp.asarray(random.random((SAMPLES, 4)), jnp.bfloat16)
    return jax.tree.map(jnp.asarray, {**narrow, "wide": wide, "flags": flags, "halves": halves})


def on_tpu(function: Callable[..., Any], *given: Any) -> Any:
    with program_for("tpu"):
        return function(*given)


def take(samples: Any, rows: Any) -> Any:
    return rows_of(samples)(rows)


def test_rows_that_are_gathered_together_are_the_same_bit_for_bit(samples: dict[str, Any]) -> None:
    found = on_tpu(take, samples, ROWS)
    assert found.keys() == samples.keys()
    for name, leaf in samples.items():
        wanted = np.asarray(leaf)[ROWS]
        assert (found[name].dtype, found[name].shape) == (wanted.dtype, wanted.shape)
        assert np.asarray(found[name]).tobytes() == wanted.tobytes(), name


def test_narrow_samples_are_gathered_at_once_for_a_tpu_only(samples: dict[str, Any]) -> None:
    def gathers() -> int:
        return jax.jit(take).lower(samples, ROWS).as_text().count('"stablehlo.gather"')

    with_others = 3  # are not narrow words
    assert on_tpu(gathers) == 1 + with_others
    assert gathers() == len(NARROW) + with_others
    samples = {"flags": samples["flags"]}
    assert on_tpu(gathers) == 1
