"""The mesh: one axis over all devices of all hosts, with the environments split along it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

ENVS = "envs"
SPLIT = PartitionSpec(ENVS)  # the leading axis of a leaf is that of the environments
REPLICATED = PartitionSpec()  # the same on all devices


def over(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A row of these devices; of all there are, if none are named."""
    return Mesh(np.array(jax.devices() if devices is None else devices), (ENVS,))


def split(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, SPLIT)


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, REPLICATED)


def placed(tree: Any, sharding: NamedSharding) -> Any:
    """A tree of arrays on the devices of all processes, each of which has them whole. device_put is
    not for that, or would have the devices compare them first.
    """

    def place(leaf: Any) -> jax.Array:
        if isinstance(leaf, jax.Array) and leaf.sharding == sharding:
            return leaf
        values = np.asarray(leaf)
        return jax.make_array_from_callback(values.shape, sharding, lambda part: values[part])

    return jax.tree.map(place, tree)


def fetched(tree: Any) -> Any:
    """A tree of arrays that are split over the devices of all processes, whole on each of them."""
    if jax.process_count() == 1:
        return jax.device_get(tree)
    return multihost_utils.process_allgather(tree, tiled=True)


def copied(tree: Any, device: jax.Device) -> Any:
    """A tree of arrays that are the same on all devices, once more on a device of this process;
    the other processes have no part in it.
    """
    return jax.tree.map(lambda leaf: jax.device_put(np.array(leaf), device), tree)


def local_cpu() -> jax.Device | None:
    """A CPU of this process; None where JAX_PLATFORMS names others alone."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None
