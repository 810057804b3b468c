"""The base class of torsos: flax modules from the parts of an observation to features."""

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
    """Subclasses implement `__call__` with `nn.compact`. They read their sizes from `spec`, and the
    shapes of an observation's parts from `observation`.
    """

    spec: Spec
    observation: Shapes

    # MODULE:NAME of the same forward pass in NumPy (hackmatrix.networks.NumpyTorso). Torsos of this
    # package are named in NETWORKS instead.
    in_numpy: ClassVar[str]

    # Of how many samples a CPU takes the gradient at a time: what is worked out of more of them
    # does not fit into its caches.
    samples_at_once: ClassVar[int] = 2048

    @classmethod
    def refuses(cls, spec: Spec, observation: Shapes) -> str | None:
        """Why there is no torso of this spec for observations of these parts; None if there is."""
        return None

    def __call__(self, parts: Parts) -> Array:
        """Features [..., F] of an observation in parts f32[..., *shape]."""
        raise NotImplementedError("the torso has no __call__")
