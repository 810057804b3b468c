"""GPUs of one host, described well enough to compile for them on a machine that has none."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

HOPPER = 9  # the first generation for which Mosaic compiles kernels
# The share of a GPU's memory that JAX allocates when it starts.
_SHARE_OF_PROGRAMS = 0.75
_COMPILER = "jax_plugins.xla_cuda12"
_DESCRIPTION = """
gpu_device_info {{
  cuda_compute_capability {{ major: {capability} minor: 0 }}
  core_count: {processors}
  fpus_per_core: {units}
  clock_rate_ghz: {clock}
  device_memory_size: {memory}
  memory_bandwidth: {bandwidth}
  l2_cache_size: {cache}
  shared_memory_per_core: {shared}
  shared_memory_per_block_optin: {shared_by_block}
  shared_memory_per_block: 49152
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  threads_per_core_limit: 2048
  threads_per_block_limit: 1024
  threads_per_warp: 32
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{title}"
"""


@dataclass(frozen=True)
class Model:
    """A GPU as the compiler sees it. Sizes in bytes, the bandwidth in bytes per second."""

    name: str
    title: str
    capability: int
    processors: int
    units: int  # for float32 arithmetic, per processor
    clock: float  # GHz
    memory: int
    bandwidth: int
    cache: int
    shared: int  # memory per processor

    @property
    def description(self) -> str:
        shared_by_block = self.shared - 1024
        return _DESCRIPTION.format(**vars(self), shared_by_block=shared_by_block)


A100 = Model(
    "a100", "NVIDIA A100-SXM4-80GB", capability=8, processors=108, units=64, clock=1.41,
    memory=85_100_068_864, bandwidth=2_039_040_000_000, cache=41_943_040, shared=167_936,
)  # fmt: skip
H100 = Model(
    "h100", "NVIDIA H100 80GB HBM3", capability=9, processors=132, units=128, clock=1.98,
    memory=84_942_979_072, bandwidth=3_352_320_000_000, cache=52_428_800, shared=233_472,
)  # fmt: skip
H200 = Model(
    "h200", "NVIDIA H200 141GB HBM3e", capability=9, processors=132, units=128, clock=1.98,
    memory=151_397_597_184, bandwidth=4_800_000_000_000, cache=52_428_800, shared=233_472,
)  # fmt: skip


@dataclass(frozen=True)
class Gpus:
    """`chips` GPUs of a model in one host."""

    model: Model
    chips: int
    platform = "gpu"
    hosts = 1

    @property
    def has_kernels(self) -> bool:
        """Whether our kernels compile for it."""
        return self.model.capability >= HOPPER

    @property
    def name(self) -> str:
        return f"{self.model.name}-{self.chips}"

    @property
    def memory(self) -> int:
        """The memory of each GPU, in bytes."""
        return self.model.memory

    @property
    def memory_of_a_program(self) -> int:
        return int(self.memory * _SHARE_OF_PROGRAMS)

    @property
    def missing(self) -> str | None:
        """What to install to compile for them; None if it is there."""
        try:
            found = importlib.util.find_spec(_COMPILER)
        except ModuleNotFoundError:
            found = None
        if found:
            return None
        return (
            "the compiler for GPUs is not installed: run make .cache/compiler-for-gpus, then rerun "
            "with PYTHONPATH=.cache/compiler-for-gpus"
        )

    def devices(self) -> list[Any]:
        from jax.experimental import topologies  # programs list the names before they load JAX

        return topologies.get_topology_desc(
            self.name,
            platform="cuda",
            topology=f"1x{self.hosts}x{self.chips}",
            target_config=self.model.description,
        ).devices


def takes_kernels(device: Any) -> bool:
    """Whether a step of the game is one kernel on this device: on TPUs, and on NVIDIA's GPUs from
    Hopper on.
    """
    if device.platform != "gpu":
        return device.platform == "tpu"
    generation, _, _ = str(getattr(device, "compute_capability", "")).partition(".")
    return generation.isdecimal() and int(generation) >= HOPPER


GPUS = [Gpus(model, chips) for model in (A100, H100, H200) for chips in (1, 8)]
