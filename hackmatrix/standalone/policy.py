"""A policy from the plain arrays that `launch.export` writes (hackmatrix/networks/files.py)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from hackmatrix import plugins
from hackmatrix.errors import UserError
from hackmatrix.networks import NumpyTorso, files, numpy_address
from hackmatrix.networks.files import About
from hackmatrix.networks.in_numpy import dense
from hackmatrix.standalone import acting


class NumpyPolicy:
    """Computes in float32, whatever the type of the products was in training."""

    def __init__(self, file: str | Path) -> None:
        self._hold(*files.read(file))
        what = f"{file} does not fit network={self.about.spec.network}, which has changed since"
        with plugins.as_user_error(what), np.errstate(all="ignore"):
            logits, _ = self.outputs(np.zeros(self._size, np.float32))
            if len(logits) != self._actions:
                raise ValueError(f"it has {len(logits)} logits for {self._actions} actions")

    @classmethod
    def of(cls, params: Mapping[str, Any], about: About) -> Self:
        """From arrays of NumPy, as such a file has them."""
        policy = cls.__new__(cls)
        policy._hold(params, about)
        return policy

    def _hold(self, params: Mapping[str, Any], about: About) -> None:
        self._params, self.about = params["params"], about
        self._torso, self._turning = _torso(about), about.turning
        self._size = sum(map(math.prod, about.observation.values()))
        self._actions = len(about.actions)

    def outputs(self, observation: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Logits f32[..., A] and values f32[...] of observations f32[..., N]."""
        observation = np.asarray(observation, np.float32)
        batch = observation.shape[:-1]
        rows = observation.reshape(math.prod(batch), observation.shape[-1])
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
        self, observation: ArrayLike, mask: ArrayLike, draws: np.random.Generator | None = None
    ) -> Any:
        """Of the actions that the mask bool[A] allows, the likeliest, or one drawn as the policy
        has it: an int, or i32[B] for B observations and masks.
        """
        observation, mask = np.asarray(observation, np.float32), np.asarray(mask, bool)
        acting.check(observation, mask, self._size, self._actions)
        if not isinstance(draws, np.random.Generator | None):
            raise UserError(f"draws={draws!r} must be numpy.random.default_rng(SEED), or None")
        return acting.chosen(self.outputs(observation)[0], mask, draws)


def _torso(about: About) -> NumpyTorso:
    """Where the file tells its address, the network itself, which needs JAX, is not imported."""
    network, told = about.spec.network, about.in_numpy
    address = told or numpy_address(network)
    if address is None:
        raise UserError(
            f"network={network} has no `in_numpy`, MODULE:NAME of its forward pass without JAX"
        )
    try:
        torso: NumpyTorso = plugins.load(address)
    except UserError as error:
        if told is None:
            raise
        raise UserError(f"network={network}: its `in_numpy` is not found: {error}") from None
    return torso


def _in_parts(rows: np.ndarray, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The parts f32[B, *shape] of observations f32[B, N]."""
    sizes = [math.prod(shape) for shape in shapes.values()]
    columns = np.split(rows, np.cumsum(sizes)[:-1], axis=-1)
    return {
        name: column.reshape(len(rows), *shape)
        for (name, shape), column in zip(shapes.items(), columns, strict=True)
    }
