"""The mesh: one axis over all devices of all hosts, with the environments split along it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

ENVS = "envs"
SPLIT = PartitionSpec(ENVS)  # the leading axis of a leaf is the environments
REPLICATED = PartitionSpec()  # the same on all devices


def over(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Returns a mesh with one axis over these devices, by default over all."""
    return Mesh(np.array(jax.devices() if devices is None else devices), (ENVS,))


def split(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, SPLIT)


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, REPLICATED)


def placed(tree: Any, sharding: NamedSharding) -> Any:
    """Puts a tree of arrays, which every process has whole, on the devices of all processes.
    device_put is not meant for this, or would have the devices compare the values first.
    """

    def place(leaf: Any) -> jax.Array:
        if isinstance(leaf, jax.Array) and leaf.sharding == sharding:
            return leaf
        values = np.asarray(leaf)
        return jax.make_array_from_callback(values.shape, sharding, lambda part: values[part])

    return jax.tree.map(place, tree)


def fetched(tree: Any) -> Any:
    """Returns the full arrays of a tree sharded over all processes, on each of them."""
    if jax.process_count() == 1:
        return jax.device_get(tree)
    return multihost_utils.process_allgather(tree, tiled=True)


def copied(tree: Any, device: jax.Device) -> Any:
    """Copies a tree of replicated arrays to a device of this process, without the others."""
    return jax.tree.map(lambda leaf: jax.device_put(np.array(leaf), device), tree)


def local_cpu() -> jax.Device | None:
    """Returns a CPU device of this process; None where JAX_PLATFORMS leaves CPUs out."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None
