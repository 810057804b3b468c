"""What is taken from the private parts of jax, which may change with any version of it."""

from __future__ import annotations

from typing import Any

from jax._src import cloud_tpu_init, distributed


def coordination_client() -> Any:
    """The connection to the coordinator, with a key-value store and barriers; None where there is
    one process alone. `jax.experimental.multihost_utils` offers these only through devices.
    """
    return distributed.global_state.client


def is_cloud_tpu_vm() -> bool:
    """Whether this is a host of a TPU slice, without asking for devices."""
    return bool(cloud_tpu_init.running_in_cloud_tpu_vm)
