"""Measures how fast things are: `python -m launch.bench env`, `train` or `scaling`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
from absl import app, flags, logging

from hackmatrix.bench import (
    compiled,
    environment,
    network,
    scaling,
    scaling_report,
    timing,
    training,
)
from hackmatrix.bench.preflight import CannotCompile
from hackmatrix.bench.report import Report, Row
from hackmatrix.game.slots import CAPACITY
from hackmatrix.parallel import mesh, slices
from hackmatrix.train import config
from hackmatrix.train.command_line import define_config, parser
from hackmatrix.train.config import ConfigError
from hackmatrix.train.program import Program

PROGRAM = "launch.bench"
MODES = ("env", "train", "scaling")

_CONFIG = define_config(PROGRAM)
_BOARDS = flags.DEFINE_list("boards", ["256", "1024", "4096", "16384"], "Numbers of boards.")
_SECONDS = flags.DEFINE_float("seconds", 3, "How long to measure a rate.", lower_bound=0)
_SLICE = flags.DEFINE_enum("slice", None, list(slices.SLICES), "Compile for this TPU slice only.")
_BOARDS_A_DEVICE = flags.DEFINE_integer(
    "boards_a_device", 4096, "Boards on each device of the slice.", lower_bound=1
)
_OVERFLOW_STEPS = flags.DEFINE_integer(
    "overflow_steps", 0, "Play so many steps to see how long the lists get.", lower_bound=0
)
_ENVS = flags.DEFINE_integer(
    "envs", 64, "Environments in scaling: a device for weak, all for strong.", lower_bound=1
)
_PROCESSES = flags.DEFINE_list(
    "processes", [], "Scaling over such numbers of processes here, each with a device of its own."
)
_SLICES = flags.DEFINE_list(
    "slices", [], "Scaling: only compile for these TPU slices too, in rows of their own."
)
_OUT = flags.DEFINE_string("out", "runs/scaling", "Where scaling leaves its table and its plot.")
_JSON = flags.DEFINE_bool("json", False, "Print JSON, a line a measurement.")


def _are_numbers(texts: list[str]) -> bool:
    return all(each.isdecimal() and int(each) > 0 for each in texts)


flags.register_validator(
    _BOARDS, lambda texts: bool(texts) and _are_numbers(texts), "must be numbers like 256,1024"
)
flags.register_validator(_PROCESSES, _are_numbers, "must be numbers like 1,2,4")
flags.register_validator(
    _SLICES,
    lambda names: set(names) <= set(slices.SLICES),
    f"must be some of {','.join(slices.SLICES)}",
)


def main(arguments: list[str]) -> None:
    if len(arguments) != 2 or arguments[1] not in MODES:
        sys.exit(f"{PROGRAM}: say what to measure, one of: {', '.join(MODES)}")
    logging.set_verbosity(logging.WARNING)
    try:
        run(arguments[1], Report(_JSON.value))
    except (ConfigError, CannotCompile) as error:
        sys.exit("\n".join(f"{PROGRAM}: {line}" for line in str(error).splitlines()))


def run(mode: str, report: Report) -> None:
    if mode == "scaling":
        measure_scaling(_CONFIG.value, _ENVS.value, _SECONDS.value)
    elif mode == "train":
        measure_training(_CONFIG.value, _SECONDS.value, report)
    else:
        measure_environment(report)


def measure_environment(report: Report) -> None:
    if _SLICE.value:
        compile_for(slices.SLICES[_SLICE.value], _BOARDS_A_DEVICE.value, report)
    else:
        measure([int(boards) for boards in _BOARDS.value], _SECONDS.value, report)
    if _OVERFLOW_STEPS.value:
        report.crowd(environment.crowd(_OVERFLOW_STEPS.value, boards=4096), CAPACITY)


def measure(numbers: list[int], seconds: float, report: Report) -> None:
    report.machine()
    for boards in numbers:
        _, compile_seconds = compiled.compile_afresh(environment.lower_step(boards))
        looks = environment.at_observation, environment.at_words, environment.at_nothing
        observed, words, unobserved, alone = timing.in_turns(
            *(environment.work(boards, look) for look in looks), network.work(), seconds=seconds
        )
        report.row(
            Row(
                boards=boards,
                compile_seconds=compile_seconds,
                observed=observed,
                words=words,
                unobserved=unobserved,
                network=alone,
                bytes_per_board=environment.bytes_per_board(),
            )
        )


def measure_training(raw: Mapping[str, Any], seconds: float, report: Report) -> None:
    """At the reference setting, if not told another, on all devices, beside the network alone."""
    given = {**raw, "auto_tune": False}
    resolved = config.resolve(given, jax.default_backend(), jax.device_count())
    result = training.measure_training(Program(resolved, mesh.over()), resolved.batch_size, seconds)
    setting = (
        f"{resolved.num_envs} x {resolved.num_steps}, {resolved.num_minibatches} minibatches, "
        f"{resolved.update_epochs} epochs, {resolved.compute_dtype}"
    )
    report.training(setting, result)


def measure_scaling(raw: Mapping[str, Any], envs: int, seconds: float) -> None:
    """This process leaves the devices to those that measure."""
    found = scaling.machine()
    numbers = [int(number) for number in _PROCESSES.value] or scaling.sizes(found)
    scaling.check(raw, found.platform, numbers, _SLICES.value, envs)
    made = scaling_report.made_with()
    points = scaling_report.show(points_of(raw, numbers, envs, seconds), made, _JSON.value)
    if found.is_first:
        written = scaling_report.write(points, made, Path(_OUT.value))
        print("\n".join(written), file=sys.stderr)


def points_of(
    raw: Mapping[str, Any], numbers: list[int], envs: int, seconds: float
) -> Iterator[scaling.Point]:
    yield from scaling.curves(raw, numbers, envs, seconds, in_processes=bool(_PROCESSES.value))
    for name in _SLICES.value:
        yield scaling.compiled_point(raw, name, envs)


def compile_for(target: slices.Slice, boards: int, report: Report) -> None:
    mesh = slices.mesh(target, environment.BOARDS)
    program, seconds = compiled.compile_afresh(environment.lower_step(boards, mesh))
    report.compiled(target, boards, compiled.facts(program), seconds)


if __name__ == "__main__":
    app.run(main, flags_parser=parser(PROGRAM))
