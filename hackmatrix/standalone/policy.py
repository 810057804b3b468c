"""A policy from the plain arrays that `launch.export` writes (hackmatrix/networks/files.py)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from hackmatrix.networks import files, numpy_torso
from hackmatrix.networks.files import About
from hackmatrix.networks.in_numpy import dense


class NumpyPolicy:
    """Computes in float32, whatever the type of the products was in training."""

    def __init__(self, file: str | Path) -> None:
        self._hold(*files.read(file))

    @classmethod
    def of(cls, params: Mapping[str, Any], about: About) -> Self:
        """From arrays of NumPy, as such a file has them."""
        policy = cls.__new__(cls)
        policy._hold(params, about)
        return policy

    def _hold(self, params: Mapping[str, Any], about: About) -> None:
        self._params, self.about = params["params"], about
        self._torso, self._turning = numpy_torso(about.spec.network, about.in_numpy), about.turning

    def outputs(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits f32[..., A] and values f32[...] of observations f32[..., N]."""
        batch = observation.shape[:-1]
        rows = observation.reshape(math.prod(batch), observation.shape[-1]).astype(np.float32)
        parts = _in_parts(rows, self.about.observation)
        if self._turning:
            parts, turn = self._turning.turned(parts)
        features = self._torso(self._params, parts)
        valued = features
        if self.about.spec.separate_critic:
            valued = self._torso(self._params["critic_torso"], parts)
        logits, value = (
            dense(self._params["actor"], features),
            dense(self._params["critic"], valued),
        )
        if self._turning:
            logits = self._turning.turned_back(logits, turn)
        return logits.reshape(*batch, logits.shape[-1]), value.reshape(batch)

    def act(
        self, observation: np.ndarray, mask: np.ndarray, draws: np.random.Generator | None = None
    ) -> Any:
        """Of the actions that the mask bool[A] allows, the likeliest, or one drawn as the policy
        has it: an int, or i32[B] for B observations and masks.
        """
        observation, mask = np.asarray(observation), np.asarray(mask, bool)
        if mask.shape[:-1] != observation.shape[:-1] or not mask.any(-1).all():
            raise ValueError(
                "each observation needs a mask of its own that allows an action: they are "
                f"{observation.shape} and {mask.shape}, with {mask.sum()} allowed"
            )
        logits = self.outputs(observation)[0]
        if draws:
            logits = logits + draws.gumbel(size=logits.shape)
        actions = np.where(mask, logits, -np.inf).argmax(-1).astype(np.int32)
        return actions if actions.ndim else int(actions)


def _in_parts(rows: np.ndarray, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The parts f32[B, *shape] of observations f32[B, N]."""
    sizes = [math.prod(shape) for shape in shapes.values()]
    columns = np.split(rows, np.cumsum(sizes)[:-1], axis=-1)
    return {
        name: column.reshape(len(rows), *shape)
        for (name, shape), column in zip(shapes.items(), columns, strict=True)
    }
