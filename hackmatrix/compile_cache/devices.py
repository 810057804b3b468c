"""The devices that programs run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

Devices = Sequence[jax.Device]


def are_among(known: Callable[..., Devices], devices: Devices) -> bool:
    try:
        return set(devices) <= set(known(backend=devices[0].platform))
    except RuntimeError:  # there are none of this kind
        return False


def devices_of(arguments: Any) -> Devices:
    """Returns the devices on which a function runs that is called with these arguments."""
    for leaf in jax.tree.leaves(arguments):
        if isinstance(leaf, jax.Array) and leaf.committed:
            if isinstance(leaf.sharding, NamedSharding):
                return list(leaf.sharding.mesh.devices.flat)
            return list(leaf.devices())
    wanted: Any = getattr(jax.config, "jax_default_device")  # noqa: B009  it has no type
    if wanted is None or isinstance(wanted, str):
        return jax.local_devices(backend=wanted)[:1]
    device: jax.Device = wanted
    return [device]
