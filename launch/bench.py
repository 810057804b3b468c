"""Measures how fast things are: `python -m launch.bench env`, `train` or `scaling`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import jax
from absl import app, flags, logging

from configs import default
from hackmatrix.bench import compiled, environment, network, scaling, scaling_report, training
from hackmatrix.bench.report import Report, Row
from hackmatrix.game.slots import CAPACITY
from hackmatrix.parallel import mesh, slices
from hackmatrix.train import config
from hackmatrix.train.program import Program

MODES = ("env", "train", "scaling")

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
_OUT = flags.DEFINE_string("out", "runs/scaling", "Where scaling leaves its table and its plot.")
_JSON = flags.DEFINE_bool("json", False, "Print JSON, a line a measurement.")

flags.register_validator(
    _BOARDS,
    lambda boards: bool(boards) and all(each.isdecimal() and int(each) > 0 for each in boards),
    "must be numbers like 256,1024",
)


def main(arguments: list[str]) -> None:
    if len(arguments) != 2 or arguments[1] not in MODES:
        sys.exit(f"launch.bench: say what to measure, one of: {', '.join(MODES)}")
    logging.set_verbosity(logging.WARNING)
    if arguments[1] == "scaling":
        points = scaling_report.show(curves(_ENVS.value, _SECONDS.value), _JSON.value)
        written = scaling_report.write(points, Path(_OUT.value))
        print("\n".join(written), file=sys.stderr)
        return
    report = Report(_JSON.value)
    if arguments[1] == "train":
        measure_training(_SECONDS.value, report)
        return
    if _SLICE.value:
        compile_for(slices.SLICES[_SLICE.value], _BOARDS_A_DEVICE.value, report)
    else:
        measure([int(boards) for boards in _BOARDS.value], _SECONDS.value, report)
    if _OVERFLOW_STEPS.value:
        report.crowd(environment.crowd(_OVERFLOW_STEPS.value, boards=4096), CAPACITY)


def measure(numbers: list[int], seconds: float, report: Report) -> None:
    report.machine()
    around = [network.steps_per_second(seconds)]
    for boards in numbers:
        _, compile_seconds = compiled.compile_afresh(environment.lower_step(boards))
        observed, words, unobserved = (
            environment.steps_per_second(boards, look, seconds)
            for look in (environment.at_observation, environment.at_words, environment.at_nothing)
        )
        around.append(network.steps_per_second(seconds))
        report.row(
            Row(
                boards=boards,
                compile_seconds=compile_seconds,
                observed=observed,
                words=words,
                unobserved=unobserved,
                network=around[-2] + around[-1],
                bytes_per_board=environment.bytes_per_board(),
            )
        )
    report.network(sum(around[1:], around[0]))


def measure_training(seconds: float, report: Report) -> None:
    """At the reference setting on all devices, beside the network alone."""
    raw = {**default.get_config(), "auto_tune": False, "lr": 2.5e-4}
    resolved = config.resolve(raw, jax.default_backend(), jax.device_count())
    before = network.steps_per_second(seconds)
    result = training.measure_training(Program(resolved, mesh.over()), resolved.batch_size, seconds)
    setting = (
        f"{resolved.num_envs} x {resolved.num_steps}, {resolved.num_minibatches} minibatches, "
        f"{resolved.update_epochs} epochs, {resolved.compute_dtype}"
    )
    report.training(setting, result, before + network.steps_per_second(seconds))


def curves(envs: int, seconds: float) -> Iterator[scaling.Point]:
    """Both, over the devices here; this process leaves them to those that measure."""
    raw = {**default.get_config(), "lr": 2.5e-4}
    numbers = scaling.powers_of_two(scaling.devices_here())
    for kind in scaling.KINDS:
        yield from scaling.curve(raw, kind, numbers, envs, seconds)


def compile_for(target: slices.Slice, boards: int, report: Report) -> None:
    mesh = slices.mesh(target, environment.BOARDS)
    program, seconds = compiled.compile_afresh(environment.lower_step(boards, mesh))
    report.compiled(target, boards, compiled.facts(program), seconds)


def parse(arguments: list[str]) -> list[str]:
    try:
        return flags.FLAGS(arguments)
    except flags.Error as error:
        sys.exit(f"launch.bench: {' '.join(str(error).split())}")


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
