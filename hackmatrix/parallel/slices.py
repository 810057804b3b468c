"""TPU slices, described well enough to compile for one on a machine that has no TPU."""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jax.sharding import Mesh

_LOADING = threading.Lock()  # the first call loads libtpu, which must not happen twice


@dataclass(frozen=True)
class Generation:
    """A kind of chip, which a program sees as one device. Memory in GiB: what a chip has, and what
    the compiler leaves of it to a program (it says so when it refuses one).
    """

    name: str
    chip_config: str
    memory: int
    for_programs: float
    cores: int  # of a chip, where the names of slices count those

    @property
    def hbm(self) -> int:
        """In bytes."""
        return self.memory * 2**30

    @property
    def hbm_of_a_program(self) -> int:
        """In bytes."""
        return int(self.for_programs * 2**30)


V4 = Generation("v4", "megacore", memory=32, for_programs=30.75, cores=2)
V5E = Generation("v5e", "default", memory=16, for_programs=15.75, cores=1)
V5P = Generation("v5p", "megacore", memory=96, for_programs=95.74, cores=2)
V6E = Generation("v6e", "default", memory=32, for_programs=31.25, cores=1)

_FOUR_A_HOST = (2, 2, 1)
_ONE, _EIGHT = (1, 1), (2, 4)  # slices of one host that has so many


@dataclass(frozen=True)
class Slice:
    """So many chips along each side."""

    generation: Generation
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.generation.name}-{self.chips * self.generation.cores}"

    @property
    def chips(self) -> int:
        return math.prod(self.shape)

    @property
    def hosts(self) -> int:
        return self.chips // math.prod(self.chips_a_host)

    @property
    def chips_a_host(self) -> tuple[int, int, int]:
        return (*self.shape, 1) if self.shape in (_ONE, _EIGHT) else _FOUR_A_HOST


_IN_SPACE = (2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4)
_IN_A_PLANE = _ONE, (2, 2), _EIGHT, (4, 4), (4, 8), (8, 8)
SLICES = {
    each.name: each
    for generation, shapes in (
        (V4, _IN_SPACE),
        (V5E, _IN_A_PLANE),
        (V5P, _IN_SPACE),
        (V6E, _IN_A_PLANE),
    )
    for each in (Slice(generation, shape) for shape in shapes)
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
            f"{of.generation.name}:{'x'.join(map(str, of.shape))}",
            platform="tpu",
            chip_config_name=of.generation.chip_config,
            chips_per_host_bounds=of.chips_a_host,
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
