"""Checks whether training fits a TPU slice or GPUs, which need not be here, by compiling for them.

The largest number of environments is an estimate, as compiling for more of them takes ever longer:
all memory besides the learner's is taken to be proportional to their number. Far from the compiled
number it is poor, because small arrays stay in on-chip memory: from 4,096 environments of
configs/v4_8.py on a v4-8 it is 5.6 million, of which 4.6 million fit. The size that the compiler
reports for a program that it refuses may be too low (a program of an earlier revision: 96% of the
memory for 1.16 million, but 99% for 1.08 million), so the estimate is then at most nine tenths of
the number that was refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import jax

from hackmatrix.bench import compiled
from hackmatrix.bench.compiled import Collective, Loop
from hackmatrix.errors import UserError
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel import slices
from hackmatrix.parallel.gpus import Gpus
from hackmatrix.train.checkpoints.savable import check_can_be_saved
from hackmatrix.train.config import Config, autoscale, resolve
from hackmatrix.train.config.rules import AUTO
from hackmatrix.train.program import Program
from hackmatrix.train.reporting import metric_catalogue

_REQUIRED = re.compile(r"\(([\d.]+)([KMG])\) exceeds available HBM")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True)
class Preflight:
    """The result; sizes in bytes. `collectives` and `cycles` are those of a minibatch, None if not
    compiled. `cycles` is the compiler's estimate, which leaves out gathers; 0 if there is none, as
    on GPUs and on one device.
    """

    slice: str
    devices: int
    hosts: int
    num_envs: int
    num_steps: int
    num_minibatches: int
    update_epochs: int
    memory: int  # on one device
    hbm: int
    fits: bool
    collectives: list[Collective] | None
    cycles: int | None
    compile_seconds: float | None
    estimated_largest_num_envs: int  # 0 where there is no room for any


def refuse_to_resume(raw: Mapping[str, Any]) -> None:
    """Raises UserError if a run is to be resumed, as its settings would not count."""
    if (resume := raw.get("resume")) not in (None, AUTO):
        raise UserError(
            f"resume={resume!r}: no run is resumed here; leave it out, and give the settings of "
            "the run by --config=FILE"
        )


def examine(raw: Mapping[str, Any], slice_name: str) -> Preflight:
    """Compiles the program that a run with this configuration would run on the slice."""
    refuse_to_resume(raw)
    target = found_slice(slice_name)
    mesh = meshes.over(target.devices())
    config = resolve(raw, target.platform, mesh.size)
    program = Program(config, mesh)
    metric_catalogue.check(program.env, program.algorithm)
    _ = program.params_to_start_from  # raises a UserError if there are none
    check_can_be_saved(program.shapes)
    lowered = program.lower()
    seconds = minibatch = None
    try:
        made, seconds = compiled.compile_afresh(lowered)
        memory, minibatch = compiled.memory(made), of_a_minibatch(made.as_text() or "")
    except jax.errors.JaxRuntimeError as error:
        memory = memory_refused(str(error))
    fits = minibatch is not None and memory <= target.memory_of_a_program
    return Preflight(
        slice=target.name,
        devices=mesh.size,
        hosts=target.hosts,
        num_envs=config.num_envs,
        num_steps=config.num_steps,
        num_minibatches=config.num_minibatches,
        update_epochs=config.update_epochs,
        memory=memory,
        hbm=target.memory,
        fits=fits,
        collectives=minibatch.collectives if minibatch else None,
        cycles=minibatch.cycles if minibatch else None,
        compile_seconds=seconds,
        estimated_largest_num_envs=_largest_num_envs(config, program, memory, target, fits),
    )


def of_a_minibatch(hlo: str) -> Loop:
    """Returns the loop that reduces gradients: no other has as large a collective. Without any, as
    on one device, it cannot be told from others.
    """
    reducing = [loop for loop in compiled.loops(hlo) if loop.collectives]
    return max(
        reducing,
        key=lambda loop: max(each.size for each in loop.collectives),
        default=Loop([], cycles=0),
    )


def lines(found: Preflight) -> list[str]:
    """Returns the result as lines of text."""
    batch = found.num_envs * found.num_steps
    share = found.memory / found.hbm
    rows = {
        "slice": f"{found.slice}: {found.devices} devices on {found.hosts} "
        f"host{'s'[: found.hosts - 1]}",
        "environments": f"{found.num_envs:,}, {found.num_envs // found.devices:,} per device",
        "batch": f"{found.num_envs:,} x {found.num_steps} = {batch:,} samples per update",
        "minibatches": f"{found.num_minibatches} of {batch // found.num_minibatches:,}, "
        f"{found.update_epochs} epochs",
        "memory": f"{found.memory / 2**20:,.1f} MiB per device, {share:.2%} of the "
        f"{found.hbm / 2**30:.0f} GiB of a chip",
        "at most": f"about {found.estimated_largest_num_envs:,} environments (an estimate from "
        f"this number; rerun with --config.num_envs={found.estimated_largest_num_envs} to refine)"
        if found.estimated_largest_num_envs
        else "no environments: try fewer steps, fewer minibatches or a smaller network",
    }
    if found.collectives is not None and found.compile_seconds is not None:
        listed = [f"{each.kind} of {each.size:,} bytes" for each in found.collectives]
        rows["collectives"] = f"{', '.join(listed) or 'none'} per minibatch"
        if found.cycles:
            rows["cycles"] = f"{found.cycles:,} per minibatch, the compiler's estimate"
        rows["compiled in"] = f"{found.compile_seconds:.1f} s"
    rows["verdict"] = (
        "fits"
        if found.fits
        else "does not fit: use fewer environments, fewer steps or a smaller network"
    )
    return [f"{name:<15}{text}" for name, text in rows.items()]


def to_json(found: Preflight) -> str:
    return json.dumps(asdict(found))


def found_slice(name: str) -> slices.Slice | Gpus:
    """Returns the slice or GPUs of a name; UserError if their compiler is missing."""
    target = slices.SLICES[name]
    if target.missing:
        raise UserError(target.missing)
    return target


def memory_refused(error: str) -> int:
    """Returns the bytes that a refused program needs; UserError for any other refusal."""
    required = _REQUIRED.search(error)
    if not required:
        raise UserError(f"compilation failed: {error.splitlines()[0]}")
    return int(float(required[1]) * _UNITS[required[2]])


def _largest_num_envs(
    config: Config, program: Program, memory: int, target: slices.Slice | Gpus, fits: bool
) -> int:
    """Returns the estimate, rounded down so that devices and minibatches can share it; 0 if there
    is no room.

    The samples of an update have to fit an int32.
    """
    learner = sum(
        leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(program.learner_shapes)
    )
    room = target.memory_of_a_program - learner
    if room <= 0:
        return 0
    wanted = config.num_envs * room // (memory - learner)
    wanted = min(wanted, (2**31 - 1) // config.num_steps)
    if not fits:
        wanted = min(wanted, config.num_envs * 9 // 10)

    def works(num_envs: int) -> bool:
        samples = autoscale.group_samples(num_envs, config.num_steps)
        are_shared = "num_minibatches" in config.chosen or samples % config.num_minibatches == 0
        return are_shared and autoscale.groups(num_envs) % program.mesh.size == 0

    return next(filter(works, range(wanted, 0, -1)), 0)
