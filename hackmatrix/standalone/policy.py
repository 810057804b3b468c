"""A policy from the plain arrays that `launch.export` writes (hackmatrix/train/arrays.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FORMAT = 1


class NumpyPolicy:
    """Computes in float32, whatever the type of the products was in training."""

    def __init__(self, file: str | Path) -> None:
        with np.load(file, allow_pickle=False) as opened:
            arrays = dict(opened)
        if "format" not in arrays or int(arrays["format"]) != FORMAT:
            raise ValueError(f"{file} is no policy of format {FORMAT}")
        layers = sum(name.startswith("layer") and name.endswith(".bias") for name in arrays)
        self._hidden = [_part(arrays, f"layer{number}") for number in range(layers)]
        self._actor, self._critic = _part(arrays, "actor"), _part(arrays, "critic")

    def outputs(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits f32[..., A] and value f32[...] of observations f32[..., N]."""
        hidden = observation.astype(np.float32)
        for weights, bias in self._hidden:
            hidden = np.maximum(hidden @ weights + bias, 0)
        logits, value = (hidden @ weights + bias for weights, bias in (self._actor, self._critic))
        return logits, value[..., 0]

    def act(self, observation: np.ndarray, mask: np.ndarray) -> int:
        """The likeliest of the actions that the mask bool[A] allows."""
        return int(np.argmax(np.where(mask, self.outputs(observation)[0], -np.inf)))


def _part(arrays: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
    return arrays[f"{name}.weights"], arrays[f"{name}.bias"]
