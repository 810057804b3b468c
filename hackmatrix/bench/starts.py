"""Benchmark of programs from start to end, with an empty cache and then with a filled one."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from hackmatrix.bench.report import Report, in_columns
from hackmatrix.errors import UserError

_ROOT = Path(__file__).parents[2]
_AGAIN = 3
_CACHE = "JAX_COMPILATION_CACHE_DIR", "XDG_CACHE_HOME"
_COLUMNS = "first start s", "CPU s", "second start s", "CPU s", "program"
_WIDTHS = 13, 6, 14, 6, 0
# Each program with its flags ({} is a directory to write to), and its standard input.
_PROGRAMS = {
    "launch.serve --headless-cli": '{"action":"reset"}\n',
    "launch.watch --policy=policies/conv --html={}/page.html": "",
    "launch.evaluate --policy=policies/expert --episodes=8": "",
    "launch.train --config=configs/cpu.py --config.total_timesteps=4096 "
    "--config.eval_episodes=8 --workdir={}": "",
}


@dataclass(frozen=True, order=True)
class Start:
    """The wall time and processor time of a start; the latter says more on a busy machine."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Starts:
    """The first start of a program, and the fastest of several later ones."""

    program: str
    first: Start
    second: Start


def measure(root: Path = _ROOT) -> Iterator[Starts]:
    """Measures the programs of this work tree, each with a cache of its own."""
    for program, given in _PROGRAMS.items():
        with tempfile.TemporaryDirectory() as cache:
            starts = [_run(root, program, given, cache) for _ in range(1 + _AGAIN)]
        yield Starts(program.partition(" --workdir")[0], starts[0], min(starts[1:]))


def tell(starts: Iterable[Starts], report: Report) -> None:
    """Prints the starts of each program as they come."""
    report.say(in_columns(_COLUMNS, _WIDTHS))
    for each in starts:
        numbers = *astuple(each.first), *astuple(each.second)
        cells = *(f"{number:.1f}" for number in numbers), each.program
        report.tell("starts", asdict(each), in_columns(cells, _WIDTHS))


def _run(root: Path, program: str, given: str, cache: str) -> Start:
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", *(word.format(out) for word in program.split())]
        environment = {**os.environ, **dict.fromkeys(_CACHE, cache), "PYTHONPATH": str(root)}
        start, cpu = time.perf_counter(), _cpu_seconds()
        ended = subprocess.run(
            command, input=given, cwd=root, env=environment, capture_output=True, text=True
        )
        started = Start(time.perf_counter() - start, _cpu_seconds() - cpu)
        if ended.returncode:
            words, end = " ".join(command[1:]), ended.stderr.strip()
            raise UserError(f"python {words} exited with code {ended.returncode}:\n{end}")
        return started


def _cpu_seconds() -> float:
    """Returns the processor time of all child processes that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
