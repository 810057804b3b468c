"""Settings that are inputs of the compiled training program, so that it serves all their values.

An algorithm names them as its `inputs`: numbers that it computes with but does not branch on. All
other settings that it reads are constants of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from hackmatrix.train.config import Config

Array = jax.Array
_EXTRA = "extra_updates"


def names_of(algorithm: Any) -> tuple[str, ...]:
    """Returns the names of an algorithm's inputs, if it has any with `extra_updates`: a resume
    changes that number, so it must not be a constant of the program.
    """
    named = tuple(getattr(algorithm, "inputs", ()))
    return named if not named or _EXTRA in named else (*named, _EXTRA)


def values(config: Config, names: Sequence[str], **others: float) -> np.ndarray:
    """Returns f32[names], the settings of these names; `others` override the configuration."""
    return np.array([others.get(name, getattr(config, name)) for name in names], np.float32)


def with_inputs(config: Config, names: Sequence[str], numbers: Array) -> Any:
    """Returns the configuration with the named settings replaced by `numbers` f32[names]."""
    return _ConfigWithInputs(config, dict(zip(names, numbers, strict=True))) if names else config


class _ConfigWithInputs:
    def __init__(self, config: Config, numbers: dict[str, Array]) -> None:
        self._config, self._numbers = config, numbers

    def __getattr__(self, name: str) -> Any:
        return self._numbers[name] if name in self._numbers else getattr(self._config, name)
