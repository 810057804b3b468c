"""The forward pass of the toy network in NumPy, without JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def toy(
    params: Mapping[str, Any], parts: Mapping[str, np.ndarray], steepness: float = 1.0
) -> np.ndarray:
    rows = [part.reshape(len(part), -1) for part in parts.values()]
    layer = params["layer"]
    return np.tanh(steepness * (np.concatenate(rows, axis=-1) @ layer["kernel"] + layer["bias"]))
