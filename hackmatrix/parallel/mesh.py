"""The mesh: one axis over all devices of all hosts, with the environments split along it."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

ENVS = "envs"
SPLIT = PartitionSpec(ENVS)  # the leading axis of a leaf is that of the environments
SAME = PartitionSpec()  # the same on all devices


def over(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A row of these devices; of all there are, if none are named."""
    return Mesh(np.array(jax.devices() if devices is None else devices), (ENVS,))


def split(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, SPLIT)


def same(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, SAME)
