"""The modes of `python -m launch.bench`, one function each; results are printed as they come."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from hackmatrix.bench import (
    compiled,
    environment,
    network,
    preflight,
    schedules,
    sinks,
    starts,
    timing,
    training,
)
from hackmatrix.bench.report import Report, Row
from hackmatrix.bench.scaling import curves
from hackmatrix.bench.scaling import report as scaling_report
from hackmatrix.errors import UserError
from hackmatrix.game.slots import CAPACITY
from hackmatrix.parallel import mesh as meshes
from hackmatrix.rl.learning.actor_critic import ActorCritic
from hackmatrix.train.config import Config, resolve
from hackmatrix.train.program import Program

TOO_LARGE = (
    "out of memory: measure fewer boards or environments at once (--boards, --boards_a_device, "
    "--envs or --config.num_envs)"
)


def measure_environment(numbers: list[int], seconds: float, report: Report) -> None:
    """Measures random play for each number of boards, in turns with the reference network alone."""
    report.machine(used=1)
    report.heading()
    for boards in numbers:
        jax.clear_caches()  # or a number that is given twice would not be compiled again
        _, compile_seconds = compiled.compile_afresh(environment.lower_step(boards))
        looks = environment.at_observation, environment.at_words, environment.at_nothing
        observed, words, unobserved, own_loop, alone = timing.in_turns(
            *(environment.work(boards, look) for look in looks),
            environment.own_loop_work(boards),
            network.work(network.reference()),
            seconds=seconds,
        )
        report.row(
            Row(
                boards=boards,
                compile_seconds=compile_seconds,
                observed=observed,
                words=words,
                unobserved=unobserved,
                own_loop=own_loop,
                network=alone,
                bytes_per_board=environment.bytes_per_board(),
            )
        )


def compile_environment(slice_name: str, boards: int, report: Report) -> None:
    """Compiles a step for a slice that need not be here, with `boards` boards per device: without
    our kernels, and with them where its compiler supports them.
    """
    target = preflight.found_slice(slice_name)
    with schedules.dumped(target.platform) as dumps:
        mesh = meshes.over(target.devices())
        for kernels in (False, True) if target.has_kernels else (False,):
            lowered = environment.lower_trainers_step(boards, mesh, target.platform, kernels)
            program, seconds = compiled.compile_afresh(lowered, dumps.options)
            facts, instructions = compiled.facts(program), dumps.instructions()
            report.compiled(target, boards, kernels, facts, instructions, seconds)


def measure_crowd(steps: int, report: Report) -> None:
    report.crowd(environment.crowd(steps, boards=4096), CAPACITY)


def measure_training(raw: Mapping[str, Any], seconds: float, report: Report) -> None:
    """Measures training on all devices, and its network alone; unset sizes are the reference's."""
    config = _resolved({**raw, "auto_tune": False})
    program = Program(config, meshes.over())
    if not isinstance(program.algorithm, ActorCritic):
        raise UserError(
            f"algorithm={config.algorithm}: this benchmark measures `play` and `learn` on their "
            "own, so the algorithm must subclass hackmatrix.rl.learning.actor_critic.ActorCritic"
        )
    report.machine(used=program.mesh.size)
    result = training.measure_training(program, seconds)
    setting = (
        f"{config.algorithm} on {config.env} with {config.network}, "
        f"{config.num_envs} x {config.num_steps}, "
        f"{config.num_minibatches} minibatches, {config.update_epochs} epochs, "
        f"{config.compute_dtype}, in chunks of {config.log_interval} updates"
    )
    report.training(setting, result)


def measure_scaling(
    raw: Mapping[str, Any],
    processes: list[int],
    slice_names: list[str],
    envs: int,
    seconds: float,
    directory: Path,
    report: Report,
) -> None:
    """Measures scaling over processes or devices, in child processes: this one takes no device."""
    found = curves.machine()
    numbers = sorted({*processes}) or curves.sizes(found)
    curves.check(raw, found, numbers, slice_names, envs)
    scaling_report.check(directory)

    def points() -> Iterator[curves.Point]:
        yield from curves.curves(raw, numbers, envs, seconds, in_processes=bool(processes))
        for name in slice_names:
            yield curves.compiled_point(raw, name, envs)

    made = scaling_report.made_with()
    shown: list[curves.Point] = []
    try:
        for point in scaling_report.show(points(), made, report):
            shown.append(point)
    finally:  # a failure must not lose hours of measuring
        if shown and found.is_first:
            for written in scaling_report.write(shown, made, directory):
                print(written, file=sys.stderr)


def measure_sinks(raw: Mapping[str, Any], seconds: float, report: Report) -> None:
    report.machine(used=jax.device_count())
    sinks.tell(sinks.measure(_resolved(raw), seconds), report)


def measure_gymnasium(seconds: float, report: Report) -> None:
    from hackmatrix.bench import gymnasium_envs  # needs an extra

    report.machine(used=1)
    gymnasium_envs.tell(gymnasium_envs.measure(seconds), report)


def measure_starts(report: Report) -> None:
    starts.tell(starts.measure(), report)


def _resolved(raw: Mapping[str, Any]) -> Config:
    preflight.refuse_to_resume(raw)
    return resolve(raw, jax.default_backend(), jax.device_count())
