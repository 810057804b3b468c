"""TPU slices, described well enough to compile for one on a machine that has no TPU; and a table
of all slices and GPUs to compile for.
"""

from __future__ import annotations

import importlib.util
import math
import os
import threading
from dataclasses import dataclass
from typing import Any

from hackmatrix.parallel.gpus import GPUS, Gpus

_LOADING = threading.Lock()  # the first call loads libtpu, which must not happen twice


@dataclass(frozen=True)
class Generation:
    """A kind of chip, which a program sees as one device. In GiB, the memory of a chip and what the
    compiler leaves of it to a program (as it says when it refuses one).
    """

    name: str
    chip_config: str
    memory: int
    for_programs: float
    cores: int  # per chip, as the names of slices count them


V4 = Generation("v4", "megacore", memory=32, for_programs=30.75, cores=2)
V5E = Generation("v5e", "default", memory=16, for_programs=15.75, cores=1)
V5P = Generation("v5p", "megacore", memory=96, for_programs=95.74, cores=2)
V6E = Generation("v6e", "default", memory=32, for_programs=31.25, cores=1)

_FOUR_A_HOST = (2, 2, 1)
_ONE, _EIGHT = (1, 1), (2, 4)  # slices of one host with that many chips


@dataclass(frozen=True)
class Slice:
    """A TPU slice: a grid of chips of this shape."""

    generation: Generation
    shape: tuple[int, ...]
    platform = "tpu"
    has_kernels = True  # our kernels compile for it

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

    @property
    def memory(self) -> int:
        """The memory of each chip, in bytes."""
        return self.generation.memory * 2**30

    @property
    def memory_of_a_program(self) -> int:
        return int(self.generation.for_programs * 2**30)

    @property
    def missing(self) -> str | None:
        """What to install to compile for it; None if it is there."""
        if importlib.util.find_spec("libtpu"):
            return None
        return "libtpu, which compiles for TPUs, is not installed: pip install 'jax[tpu]'"

    def devices(self) -> list[Any]:
        """Returns its devices, for which programs compile, but on which none can run."""
        from jax.experimental import topologies  # programs list the names before they load JAX

        _keep_libtpu_quiet(self)
        with _LOADING:
            return topologies.get_topology_desc(
                f"{self.generation.name}:{'x'.join(map(str, self.shape))}",
                platform="tpu",
                chip_config_name=self.generation.chip_config,
                chips_per_host_bounds=self.chips_a_host,
            ).devices


_IN_SPACE = (2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4)
_IN_A_PLANE = _ONE, (2, 2), _EIGHT, (4, 4), (4, 8), (8, 8)
TPUS = [
    Slice(generation, shape)
    for generation, shapes in (
        (V4, _IN_SPACE),
        (V5E, _IN_A_PLANE),
        (V5P, _IN_SPACE),
        (V6E, _IN_A_PLANE),
    )
    for shape in shapes
]
SLICES: dict[str, Slice | Gpus] = {
    **{each.name: each for each in TPUS},
    **{each.name: each for each in GPUS},
}


def _keep_libtpu_quiet(of: Slice) -> None:
    """Tells libtpu what it would ask the cloud for, complaining at length where there is none; and
    lets any number of processes compile at once, as none of them holds a TPU.

    libtpu reads these variables once, when it is loaded.
    """
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("TPU_ACCELERATOR_TYPE", of.name)
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
