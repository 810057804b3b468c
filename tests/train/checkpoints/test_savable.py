"""States that cannot be saved are refused by their shapes and dtypes alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from hackmatrix.errors import UserError
from hackmatrix.train.checkpoints.savable import check_can_be_saved
from tests.train.checkpoints.small_state import like, on


def shapes(*shape: int, kind: Any = jnp.float32) -> Any:
    """A state with one additional array."""
    small = like(on(1))
    return small.replace(players=small.players | {"waves": jax.ShapeDtypeStruct(shape, kind)})


@pytest.mark.parametrize("kind", ["complex64", "int4", "uint2", "float4_e2m1fn"])
def test_arrays_of_a_dtype_without_a_digest_are_refused(kind: str) -> None:
    message = f"players/waves has dtype {kind}, which checkpoints cannot store: "
    with pytest.raises(UserError, match=message):
        check_can_be_saved(shapes(16, kind=getattr(jnp, kind)))


def test_arrays_without_elements_are_refused_wherever_they_are() -> None:
    message = "players/waves has no elements, .*: leave it out of the environment's states"
    with pytest.raises(UserError, match=message):
        check_can_be_saved(shapes(16, 0))


@pytest.mark.parametrize("kind", ["bool_", "uint8", "float8_e4m3fn", "float16", "int32"])
def test_arrays_of_other_dtypes_can_be_saved(kind: str) -> None:
    check_can_be_saved(shapes(16, kind=getattr(jnp, kind)))


def test_two_arrays_of_one_name_are_refused() -> None:
    small = like(on(1))
    one = jax.ShapeDtypeStruct((16,), jnp.float32)
    twice = small.replace(players=small.players | {"a/b": one, "a": {"b": one}})
    with pytest.raises(UserError, match="two arrays would be saved as players/a/b: "):
        check_can_be_saved(twice)
