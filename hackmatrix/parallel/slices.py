"""TPU slices, described well enough to compile for one on a machine that has no TPU."""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jax.sharding import Mesh

CHIPS_A_HOST = (2, 2, 1)
HBM_A_CHIP = 32 * 2**30  # bytes
HBM_A_PROGRAM = HBM_A_CHIP - 5 * 2**28  # the compiler keeps the rest for the system

_LOADING = threading.Lock()  # the first call loads libtpu, which must not happen twice


@dataclass(frozen=True)
class Slice:
    """A v4 slice. Its name counts TensorCores, two a chip, which a program sees as one device."""

    name: str
    shape: tuple[int, int, int]

    @property
    def chips(self) -> int:
        return math.prod(self.shape)

    @property
    def hosts(self) -> int:
        return self.chips // math.prod(CHIPS_A_HOST)


SLICES = {
    each.name: each
    for each in (
        Slice("v4-8", (2, 2, 1)),
        Slice("v4-16", (2, 2, 2)),
        Slice("v4-32", (2, 2, 4)),
        Slice("v4-64", (2, 4, 4)),
    )
}


def mesh(of: Slice, axis: str) -> Mesh:
    """All devices of a slice in a row. Programs compile for them; none can run."""
    # Only now: programs ask for the names of slices before they load JAX.
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh

    _keep_libtpu_quiet(of)
    with _LOADING:
        topology = topologies.get_topology_desc(
            f"v4:{'x'.join(map(str, of.shape))}",
            platform="tpu",
            chip_config_name="megacore",
            chips_per_host_bounds=CHIPS_A_HOST,
        )
    return Mesh(np.array(topology.devices), (axis,))


def _keep_libtpu_quiet(of: Slice) -> None:
    """Tells libtpu what it would ask a cloud for, and complain about at length where there is none;
    and that any number of processes may compile at once, as none of them holds a TPU.

    It reads this once, when it is loaded.
    """
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("TPU_ACCELERATOR_TYPE", of.name)
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
