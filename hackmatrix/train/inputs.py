"""Settings that are inputs of the compiled training program, which then serves any of their values.

An algorithm names them as its `inputs`: numbers that it only computes with. All other settings that
it reads are constants of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from hackmatrix.train.config import Config

Array = jax.Array


def values(config: Config, names: Sequence[str], **others: float) -> np.ndarray:
    """f32[names]: the inputs of these names; some are known better than from the configuration."""
    return np.array([others.get(name, getattr(config, name)) for name in names], np.float32)


def given(config: Config, names: Sequence[str], numbers: Array) -> Any:
    """The configuration, with inputs f32[names] in place of its numbers."""
    return _Given(config, dict(zip(names, numbers, strict=True))) if names else config


class _Given:
    def __init__(self, config: Config, numbers: dict[str, Array]) -> None:
        self._config, self._numbers = config, numbers

    def __getattr__(self, name: str) -> Any:
        return self._numbers[name] if name in self._numbers else getattr(self._config, name)
