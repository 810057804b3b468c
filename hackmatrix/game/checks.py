"""Validation of users' input: a ValueError names the field and the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np


def boards(shape: tuple[int, ...], **given: Any) -> None:
    """Checks that keys have a batch axis, and that everything else given has their batch shape."""
    if not shape:
        raise ValueError(
            "a batch needs one key per board (jax.random.split); for a single board use reset and "
            "step"
        )
    for name, each in given.items():
        if jnp.shape(each) != shape:
            raise ValueError(
                f"{name}: shape {jnp.shape(each)} does not match the keys' batch shape {shape}"
            )


def require_keys(mapping: Any, needed: Sequence[str], where: str) -> None:
    if not isinstance(mapping, Mapping):
        raise ValueError(f"{where}: expected a dictionary, got {mapping!r}")
    missing = [name for name in needed if name not in mapping]
    if missing:
        raise ValueError(f"{where}: missing {', '.join(missing)}")


def sequence(values: Any, where: str) -> Any:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ValueError(f"{where}: expected a list, got {values!r}")
    return values


def length(values: Any, where: str, needed: int) -> None:
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != needed:
        raise ValueError(f"{where}: expected {needed} values, got {values!r}")


def integer(value: Any, where: str, low: int, high: int) -> int:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_whole and low <= value <= high:
        return int(value)
    raise ValueError(f"{where}: {value!r} is not an integer from {low} to {high}")


def flag(value: Any, where: str) -> Any:
    """Returns a flag, given as True or False, or as 1 or 0."""
    return np.bool_(value if isinstance(value, bool) else integer(value, where, 0, 1))


def i32_up_to(value: Any, where: str, high: int) -> Any:
    return np.int32(integer(value, where, 0, high))
