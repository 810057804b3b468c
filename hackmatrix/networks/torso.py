"""The base class of torsos: Flax modules that map the parts of an observation to features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import flax.linen as nn
import jax

from hackmatrix.networks import Spec

Array = jax.Array
Parts = Mapping[str, Array]
Shapes = Mapping[str, tuple[int, ...]]


class Torso(nn.Module):
    """The base class. Subclasses implement `__call__` with `nn.compact`. They read their sizes from
    `spec`, and the shapes of an observation's parts from `observation`.
    """

    spec: Spec
    observation: Shapes

    # MODULE:NAME of the same forward pass in NumPy (hackmatrix.networks.NumpyTorso). Torsos of this
    # package have theirs in `in_numpy.py` and do not set it.
    in_numpy: ClassVar[str]

    # The most samples in a microbatch on a CPU, whose caches do not hold the activations of more.
    samples_at_once: ClassVar[int] = 2048

    @classmethod
    def refuses(cls, spec: Spec, observation: Shapes) -> str | None:
        """Returns why the torso does not support this spec or these parts; None if it does."""
        return None

    def __call__(self, parts: Parts) -> Array:
        """Returns features [..., F] of the parts f32[..., *shape] of observations."""
        raise NotImplementedError("the torso has no __call__")
