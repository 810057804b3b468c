"""How training scales with devices: more of them for more environments (weak), or for as many
(strong). Each number of devices has a process of its own, as JAX counts devices only once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any, Literal, TypeVar

import jax
import numpy as np

from hackmatrix.bench import compiled
from hackmatrix.bench.timing import measure
from hackmatrix.parallel import mesh as meshes
from hackmatrix.train.config import resolve
from hackmatrix.train.program import Program, TrainState

Kind = Literal["weak", "strong"]
KINDS: tuple[Kind, ...] = ("weak", "strong")
MEASURED, SIMULATED = "measured", "simulated"
_SIMULATED_DEVICES = "--xla_force_host_platform_device_count"
T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    """One number of devices. `source` says whether devices were real."""

    kind: Kind
    source: str
    devices: int
    hosts: int
    envs_a_device: int
    batch: int  # over all devices
    steps_per_second: float
    steps_per_second_a_device: float
    efficiency: float  # of the speed that the first number of devices promises
    step_p50: float  # seconds of an update
    step_p95: float
    compile_seconds: float
    repeats: int


def powers_of_two(most: int) -> list[int]:
    return [1 << power for power in range(most.bit_length())]


def curve(
    raw: Mapping[str, Any], kind: Kind, numbers: list[int], envs: int, seconds: float
) -> Iterator[Point]:
    """A point for each number of devices, as it comes. `envs` are those of a device for the weak
    curve, of all for the strong one.
    """
    first = None
    for devices in numbers:
        num_envs = envs * devices if kind == "weak" else envs
        settings = {**raw, "num_envs": num_envs, "auto_tune": False}
        found = _in_a_process(devices, point, settings, kind, devices, seconds)
        first = first or found
        yield _compared(found, first)


def devices_here() -> int:
    """Of the accelerator, or the cores of a machine that has none."""
    platform, devices = _in_a_process(1, _platform_and_devices)
    return devices if platform != "cpu" else os.cpu_count() or 1


def point(raw: Mapping[str, Any], kind: Kind, devices: int, seconds: float) -> Point:
    """Measured in this process, which has to have so many devices."""
    platform = jax.default_backend()
    config = resolve(raw, platform, devices)
    program = Program(config, meshes.over(jax.devices()[:devices]))
    begun = time.perf_counter()
    with compiled.without_persistent_cache():
        program.compile()
    compile_seconds = time.perf_counter() - begun

    def one_update(state: TrainState) -> TrainState:
        return program.run(state, 1)[0]

    _, rate = measure(one_update, program.first_state(), config.batch_size, seconds)
    times = config.batch_size / np.asarray(rate.samples)
    return Point(
        kind=kind,
        source=SIMULATED if platform == "cpu" and devices > 1 else MEASURED,
        devices=devices,
        hosts=jax.process_count(),
        envs_a_device=config.num_envs // devices,
        batch=config.batch_size,
        steps_per_second=rate.median,
        steps_per_second_a_device=rate.median / devices,
        efficiency=1.0,
        step_p50=float(np.percentile(times, 50)),
        step_p95=float(np.percentile(times, 95)),
        compile_seconds=compile_seconds,
        repeats=len(rate.samples),
    )


def _compared(found: Point, first: Point) -> Point:
    promised = first.steps_per_second_a_device * found.devices
    return replace(found, efficiency=found.steps_per_second / promised)


def _platform_and_devices() -> tuple[str, int]:
    return jax.default_backend(), jax.device_count()


def _in_a_process(devices: int, work: Callable[..., T], *arguments: Any) -> T:
    """A CPU pretends to have so many devices there; other platforms do not look at the flag."""
    before = os.environ.get("XLA_FLAGS")
    kept = [each for each in (before or "").split() if not each.startswith(_SIMULATED_DEVICES)]
    os.environ["XLA_FLAGS"] = " ".join([*kept, f"{_SIMULATED_DEVICES}={devices}"])
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(work, *arguments).result()
    finally:
        if before is None:
            del os.environ["XLA_FLAGS"]
        else:
            os.environ["XLA_FLAGS"] = before
