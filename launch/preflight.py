"""Checks whether training fits a TPU slice or GPUs, without having them.

python -m launch.preflight --slice=v4-32
python -m launch.preflight --slice=h100-1

It compiles the program that launch.train would run there, which takes up to two minutes on a CPU.
"""

from __future__ import annotations

import sys

from absl import app, flags

from hackmatrix.parallel import slices
from hackmatrix.train.config.command_line import define_config, parser
from launch.startup import command_line, outputs, starting

PROGRAM = "launch.preflight"

_CONFIG = define_config(PROGRAM)
_SLICE = flags.DEFINE_enum("slice", None, list(slices.SLICES), "The TPU slice or GPUs to check.")
_JSON = flags.DEFINE_bool("json", False, "Print JSON.")


def main(_: list[str]) -> None:
    assert _SLICE.value  # `parse` refuses none
    starting.stay_off_accelerators()
    # Imported only now: JAX reads on import which devices it is to use.
    with starting.loading(PROGRAM, "JAX"):
        from hackmatrix.bench.preflight import examine, lines, to_json

    with (
        starting.one_line_errors(PROGRAM),
        starting.waiting(f"{PROGRAM}: compiling for {_SLICE.value}"),
    ):
        starting.need_devices()
        found = examine(_CONFIG.value, _SLICE.value)
    with outputs.printing(PROGRAM):
        print(to_json(found) if _JSON.value else "\n".join(lines(found)))
    sys.exit(0 if found.fits else 1)


def parse(arguments: list[str]) -> list[str]:
    rest = parser(PROGRAM)(arguments)
    if not _SLICE.value:
        sys.exit(f"{PROGRAM}: choose a slice, such as --slice=v4-8")
    return rest


if __name__ == "__main__":
    app.run(main, flags_parser=command_line.with_help(PROGRAM, parse))
