"""Checks of what a person hands in: a ValueError names the field and the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np


def boards(shape: tuple[int, ...], **given: Any) -> None:
    """That there is a key for each board, and as many of whatever else is given."""
    if not shape:
        raise ValueError(
            "a batch needs a key for each board (jax.random.split); for one board call reset and "
            "step"
        )
    for name, each in given.items():
        if jnp.shape(each) != shape:
            raise ValueError(f"{name}: shape {jnp.shape(each)}, but there are keys for {shape}")


def keys(mapping: Any, needed: Sequence[str], where: str) -> None:
    if not isinstance(mapping, Mapping):
        raise ValueError(f"{where}: expected a dictionary, got {mapping!r}")
    missing = [name for name in needed if name not in mapping]
    if missing:
        raise ValueError(f"{where}: lacks {', '.join(missing)}")


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
    """True and false, or 1 and 0."""
    return np.bool_(value if isinstance(value, bool) else integer(value, where, 0, 1))


def whole(value: Any, where: str, high: int) -> Any:
    return np.int32(integer(value, where, 0, high))
