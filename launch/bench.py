"""Measures how fast things are: `python -m launch.bench MODE`.

env        the game alone; with --slice, only its compilation for TPUs or GPUs
train      training, its parts, and the network alone
scaling    training on more and more devices
sinks      the cost of logging metrics
gymnasium  vectorized Gymnasium environments, compared with a single one
starts     start-up time of programs, with an empty cache and with a filled one
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from absl import app, flags
from ml_collections import config_flags

from hackmatrix.parallel import slices
from hackmatrix.train.config.command_line import define_config, parser
from launch.startup import command_line, ending, outputs, starting

if TYPE_CHECKING:
    from hackmatrix.bench.report import Report

PROGRAM = "launch.bench"
_SCALING = "runs/scaling"
_MOST_BOARDS = 2**31 - 1
MODES = ("env", "train", "scaling", "sinks", "gymnasium", "starts")
_STARTING = "scaling", "starts"  # start processes, leave the devices to them, and end with them

_CONFIG = define_config(PROGRAM)
_BOARDS = flags.DEFINE_list(
    "boards", ["256", "1024", "4096", "16384"], "env: the batch sizes, in boards."
)
_SECONDS = flags.DEFINE_float("seconds", 3, "How many seconds to measure each rate.", 0, 86_400)
_SLICE = flags.DEFINE_enum(
    "slice", None, list(slices.SLICES), "env: only compile, for this TPU slice or these GPUs."
)
_BOARDS_A_DEVICE = flags.DEFINE_integer(
    "boards_a_device", 4096, "env: boards on each device of --slice.", lower_bound=1
)
_OVERFLOW_STEPS = flags.DEFINE_integer(
    "overflow_steps",
    0,
    "env: also play this many steps, to count the most enemies and transmissions on a board.",
    lower_bound=0,
)
_ENVS = flags.DEFINE_integer(
    "envs",
    64,
    "scaling: environments per device (weak scaling) or in total (strong).",
    lower_bound=1,
)
_PROCESSES = flags.DEFINE_list(
    "processes", [], "scaling: numbers of processes to start on this machine, with one device each."
)
_SLICES = flags.DEFINE_list(
    "slices", [], "scaling: TPU slices or GPUs to compile for as well, each in a row of its own."
)
_OUT = outputs.define(
    "out", f"scaling: the directory for the table and the plot, by default {_SCALING}."
)
_JSON = flags.DEFINE_bool("json", False, "Print JSON, one line per measurement.")

# Flags by the modes that take them; other modes refuse them.
_FLAGS_OF = {
    ("env",): (_BOARDS, _SLICE, _BOARDS_A_DEVICE, _OVERFLOW_STEPS),
    ("scaling",): (_ENVS, _PROCESSES, _SLICES, _OUT),
    ("train", "scaling", "sinks"): (_CONFIG,),
    ("env", "train", "scaling", "sinks", "gymnasium"): (_SECONDS,),
}


def _are_numbers(texts: list[str]) -> bool:
    return all(each.isascii() and each.isdecimal() and int(each) > 0 for each in texts)


flags.register_validator(
    _BOARDS,
    lambda texts: bool(texts) and _are_numbers(texts) and max(map(int, texts)) <= _MOST_BOARDS,
    f"must be numbers from 1 to {_MOST_BOARDS}, like 256,1024",
)
flags.register_validator(_SECONDS, math.isfinite, "must be a number")
flags.register_validator(_PROCESSES, _are_numbers, "must be numbers from 1, like 1,2,4")
flags.register_validator(
    _SLICES,
    lambda names: set(names) <= set(slices.SLICES),
    f"must be names among {','.join(slices.SLICES)}",
)


def main(arguments: list[str]) -> None:
    if len(arguments) != 2 or arguments[1] not in MODES:
        sys.exit(f"{PROGRAM}: choose what to measure, one of: {', '.join(MODES)}")
    mode = arguments[1]
    _check_flags(mode)
    if mode in _STARTING:
        ending.exit_when_terminated()
    if mode == "gymnasium" and not importlib.util.find_spec("gymnasium"):
        sys.exit(
            f"{PROGRAM}: gymnasium is missing: pip install -e '.[gymnasium]' -c constraints.txt"
        )
    if _SLICE.value:
        starting.stay_off_accelerators()
    with starting.loading(PROGRAM, "JAX"):
        from hackmatrix.bench import measuring
        from hackmatrix.bench.report import Report
        from hackmatrix.parallel.failures import out_of_memory_as_user_error
    with (
        starting.one_line_errors(PROGRAM),
        starting.waiting(f"{PROGRAM}: measuring {mode}"),
        out_of_memory_as_user_error(measuring.TOO_LARGE),
    ):
        if mode not in _STARTING:
            starting.need_devices()
        _measurements(Report(_JSON.value, _print))[mode]()


def _print(text: str) -> None:
    with outputs.printing(PROGRAM):
        print(text)


def _check_flags(mode: str) -> None:
    settings = config_flags.get_override_values(flags.FLAGS["config"])
    for of, holders in _FLAGS_OF.items():
        names = [each.name for each in holders if each.present or (each is _CONFIG and settings)]
        if mode not in of and names:
            sys.exit(f"{PROGRAM}: --{names[0]} applies to {', '.join(of)}, not to {mode}")
    if mode == "env":
        for holder in (_BOARDS, _SECONDS) if _SLICE.value else (_BOARDS_A_DEVICE,):
            if holder.present:
                why = "cannot be used with --slice" if _SLICE.value else "needs --slice"
                sys.exit(f"{PROGRAM}: --{holder.name} {why}")
    if _SLICE.value and _BOARDS_A_DEVICE.value > (
        most := _MOST_BOARDS // slices.SLICES[_SLICE.value].chips
    ):
        sys.exit(f"{PROGRAM}: --boards_a_device must be at most {most} on a {_SLICE.value}")
    if mode == "scaling" and "num_envs" in settings:
        sys.exit(f"{PROGRAM}: use --envs, not --config.num_envs: it counts per device, or in total")


def _measurements(report: Report) -> dict[str, Callable[[], None]]:
    from hackmatrix.bench import measuring

    config, seconds = _CONFIG.value, _SECONDS.value
    return {
        "env": lambda: _measure_environment(report),
        "train": lambda: measuring.measure_training(config, seconds, report),
        "scaling": lambda: measuring.measure_scaling(
            config,
            [int(number) for number in _PROCESSES.value],
            _SLICES.value,
            _ENVS.value,
            seconds,
            _OUT.value or Path(_SCALING),
            report,
        ),
        "sinks": lambda: measuring.measure_sinks(config, seconds, report),
        "gymnasium": lambda: measuring.measure_gymnasium(seconds, report),
        "starts": lambda: measuring.measure_starts(report),
    }


def _measure_environment(report: Report) -> None:
    from hackmatrix.bench import measuring

    if _SLICE.value:
        measuring.compile_environment(_SLICE.value, _BOARDS_A_DEVICE.value, report)
    else:
        numbers = [int(boards) for boards in _BOARDS.value]
        measuring.measure_environment(numbers, _SECONDS.value, report)
    if _OVERFLOW_STEPS.value:
        measuring.measure_crowd(_OVERFLOW_STEPS.value, report)


if __name__ == "__main__":
    app.run(main, flags_parser=command_line.with_help(PROGRAM, parser(PROGRAM, takes_words=True)))
