"""A policy in NumPy, from a file that `launch.export` writes (hackmatrix/networks/files.py)."""

from __future__ import annotations

import functools
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
    """A policy in NumPy. It computes in float32, whatever the compute dtype was in training."""

    def __init__(self, file: str | Path) -> None:
        self._set(*files.read(file))
        what = f"{file} does not fit network={self.about.spec.network}, which has changed since"
        with plugins.as_user_error(what), np.errstate(all="ignore"):
            example = self.about.example
            logits, _ = self.outputs(example[0] if example else np.zeros(self._size, np.float32))
            if len(logits) != self._actions:
                raise ValueError(f"it has {len(logits)} logits for {self._actions} actions")
            self.about.check_example(logits)

    @classmethod
    def of(cls, params: Mapping[str, Any], about: About) -> Self:
        """Builds a policy from parameters and metadata, as `files.read` returns them."""
        policy = cls.__new__(cls)
        policy._set(params, about)
        return policy

    def _set(self, params: Mapping[str, Any], about: About) -> None:
        self._params, self.about = params["params"], about
        self._torso, self._turning = _torso(about), about.turning
        self._size = sum(map(math.prod, about.observation.values()))
        self._actions = len(about.actions)

    def outputs(self, observation: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Returns logits f32[..., A] and values f32[...] for observations f32[..., N]."""
        observation = np.asarray(observation, np.float32)
        batch = observation.shape[:-1]
        rows = observation.reshape(math.prod(batch), observation.shape[-1])
        parts = _in_parts(rows, self.about.observation)
        if self._turning:
            parts, turn = self._turning.turned(parts)
        features = self._torso(self._params, parts)
        critic_features = features
        if self.about.spec.separate_critic:
            critic_features = self._torso(self._params["critic_torso"], parts)
        logits, value = (
            dense(self._params["actor"], features),
            dense(self._params["critic"], critic_features),
        )
        if self._turning:
            logits = self._turning.turned_back(logits, turn)
        return logits.reshape(*batch, logits.shape[-1]), value.reshape(batch)

    def act(
        self, observation: ArrayLike, mask: ArrayLike, draws: np.random.Generator | None = None
    ) -> Any:
        """Returns the likeliest of the actions that the mask bool[A] allows, or with `draws` one
        drawn from the policy: an int, or i32[B] for B observations and masks.
        """
        observation, mask = np.asarray(observation, np.float32), np.asarray(mask, bool)
        acting.check(observation, mask, self._size, self._actions)
        if not isinstance(draws, np.random.Generator | None):
            raise UserError(f"draws={draws!r} must be numpy.random.default_rng(SEED), or None")
        return acting.chosen(self.outputs(observation)[0], mask, draws)


def _torso(about: About) -> NumpyTorso:
    """Returns the network's forward pass in NumPy. If the file names it, the network itself, which
    needs JAX, is not imported.
    """
    network, declared = about.spec.network, about.in_numpy
    address = declared or numpy_address(network)
    if address is None:
        raise UserError(
            f"network={network} cannot be used without JAX: it has no `in_numpy`, the MODULE:NAME "
            "of its forward pass in NumPy"
        )
    try:
        torso: NumpyTorso = plugins.load(address)
    except UserError as error:
        if declared is None:
            raise
        raise UserError(f"network={network}: its `in_numpy` is not found: {error}") from None
    if not callable(torso) or plugins.is_of_python(torso):
        raise UserError(f"network={network}: its `in_numpy` must name a function, not {torso!r}")
    return functools.partial(torso, **plugins.arguments(network))


def _in_parts(rows: np.ndarray, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Splits observations f32[B, N] into their parts f32[B, *shape]."""
    sizes = [math.prod(shape) for shape in shapes.values()]
    columns = np.split(rows, np.cumsum(sizes)[:-1], axis=-1)
    return {
        name: column.reshape(len(rows), *shape)
        for (name, shape), column in zip(shapes.items(), columns, strict=True)
    }
