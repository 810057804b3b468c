"""Weak and strong scaling of training: more devices for proportionally more environments, or for
the same number. Each number of devices is measured in processes of its own.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np

from hackmatrix.bench import preflight
from hackmatrix.bench.scaling import subprocesses
from hackmatrix.bench.timing import in_turns
from hackmatrix.bench.training import updates_of
from hackmatrix.errors import UserError
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel import slices
from hackmatrix.train.config import autoscale, resolve
from hackmatrix.train.guards import doctor
from hackmatrix.train.program import Program

Kind = Literal["weak", "strong"]
KINDS: tuple[Kind, ...] = ("weak", "strong")
MEASURED, SIMULATED, COMPILED = "measured", "simulated", "compiled"


@dataclass(frozen=True)
class Point:
    """The result for one number of devices. `source` says whether they were real, simulated, or
    only compiled for, which leaves the speeds None.
    """

    kind: Kind
    source: str
    devices: int
    hosts: int  # processes, each of which has a host's share of the devices
    envs_a_device: int
    batch: int  # over all devices
    compile_seconds: float | None  # None where it does not fit
    repeats: int = 0
    steps_per_second: float | None = None
    steps_per_second_a_device: float | None = None
    efficiency: float | None = None  # speed per device, relative to the first point of the curve
    step_p50: float | None = None  # seconds of an update
    step_p95: float | None = None


@dataclass(frozen=True)
class Machine:
    """The devices to measure on. All hosts of a TPU slice measure together."""

    platform: str
    devices: int
    hosts: int
    is_first: bool


def machine() -> Machine:
    return subprocesses.run_in_group(1, 1, _machine)


def sizes(found: Machine) -> list[int]:
    """Returns the numbers of devices to measure: powers of two, on a CPU up to the cores that this
    process may use. Several hosts can only work together, so there it is all their devices.
    """
    if found.hosts > 1:
        return [found.devices]
    most = found.devices if found.platform != "cpu" else len(os.sched_getaffinity(0))
    return [1 << power for power in range(most.bit_length())]


_REFERENCE = {
    "num_minibatches": autoscale.REFERENCE_MINIBATCHES,
    "update_epochs": autoscale.REFERENCE_EPOCHS,
}


def settings(raw: Mapping[str, Any], num_envs: int) -> dict[str, Any]:
    """Returns a point's settings, with fixed epochs and minibatches: the same work per sample."""
    return {
        **raw,
        "num_envs": num_envs,
        **{name: work if raw[name] is None else raw[name] for name, work in _REFERENCE.items()},
        "auto_tune": False,
    }


def check(
    raw: Mapping[str, Any], found: Machine, numbers: list[int], slice_names: list[str], envs: int
) -> None:
    """Raises UserError if one of the points could not be measured or compiled."""
    preflight.refuse_to_resume(raw)
    if found.platform != "cpu" and max(numbers) > found.devices:
        raise UserError(
            f"--processes={max(numbers)}: each process needs a device of its own, but this machine "
            f"has only {found.devices}"
        )
    for devices in numbers:
        for kind in KINDS:
            resolve(settings(raw, _num_envs(kind, devices, envs)), found.platform, devices)
    for name in slice_names:
        target = preflight.found_slice(name)
        wanted = settings(raw, _num_envs("weak", target.chips, envs))
        resolve(wanted, target.platform, target.chips)


def curves(
    raw: Mapping[str, Any], numbers: list[int], envs: int, seconds: float, in_processes: bool
) -> Iterator[Point]:
    """Yields the points of the weak curve, then of the strong one, as they are measured; with a
    process for each device if `in_processes`. `envs` counts per device (weak) or in all (strong).
    """

    @functools.cache
    def measured(devices: int) -> dict[int, Point]:
        """Returns the points of both curves by num_envs, which may be the same for both."""
        processes, each = (devices, 1) if in_processes else (1, devices)
        both = (_num_envs(kind, devices, envs) for kind in KINDS)
        wanted = {number: settings(raw, number) for number in both}
        found = subprocesses.run_in_group(
            processes, each, points, [*wanted.values()], devices, seconds
        )
        return dict(zip(wanted, found, strict=True))

    for kind in KINDS:
        first = None
        for devices in numbers:
            found = measured(devices)[_num_envs(kind, devices, envs)]
            first = first or found
            yield replace(found, kind=kind, efficiency=_efficiency(found, first))


def compiled_point(raw: Mapping[str, Any], slice_name: str, envs: int) -> Point:
    """Compiles a point of the weak curve for a slice that need not be there."""
    wanted = settings(raw, _num_envs("weak", slices.SLICES[slice_name].chips, envs))
    found = subprocesses.run_on_cpu(preflight.examine, wanted, slice_name)
    return Point(
        kind="weak",
        source=COMPILED,
        devices=found.devices,
        hosts=found.hosts,
        envs_a_device=envs,
        batch=found.num_envs * found.num_steps,
        compile_seconds=found.compile_seconds,
    )


def points(wanted: list[dict[str, Any]], devices: int, seconds: float) -> list[Point]:
    """Measures points in this process, which has to have that many devices together with the others
    if there are any. Each point may belong to both curves.
    """
    return [_point(raw, devices, seconds) for raw in wanted]


def _point(raw: Mapping[str, Any], devices: int, seconds: float) -> Point:
    platform = jax.default_backend()
    config = resolve(raw, platform, devices)
    program = Program(config, meshes.over(jax.devices()[:devices]))
    jax.clear_caches()  # drops what was traced for the point before
    work, compile_seconds = updates_of(program)
    (rate,) = in_turns(work, seconds=seconds)
    times = config.batch_size / np.asarray(rate.samples)
    return Point(
        kind="weak",
        source=SIMULATED if platform == "cpu" and devices > 1 else MEASURED,
        devices=devices,
        hosts=jax.process_count(),
        envs_a_device=config.num_envs // devices,
        batch=config.batch_size,
        compile_seconds=compile_seconds,
        repeats=len(rate.samples),
        steps_per_second=rate.median,
        steps_per_second_a_device=rate.median / devices,
        step_p50=float(np.percentile(times, 50)),
        step_p95=float(np.percentile(times, 95)),
    )


def _num_envs(kind: Kind, devices: int, envs: int) -> int:
    return envs * devices if kind == "weak" else envs


def _efficiency(found: Point, first: Point) -> float:
    assert found.steps_per_second_a_device is not None
    assert first.steps_per_second_a_device is not None
    return found.steps_per_second_a_device / first.steps_per_second_a_device


def _machine() -> Machine:
    if not (found := doctor.devices()).is_good:
        raise UserError(found.text)
    return Machine(
        platform=jax.default_backend(),
        devices=jax.device_count(),
        hosts=jax.process_count(),
        is_first=jax.process_index() == 0,
    )
