"""The output of a scaling benchmark: a table for people, scaling.csv, scaling.png, TensorBoard."""

from __future__ import annotations

import csv
import importlib.util
import os
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import jax

from hackmatrix.bench.report import Report, in_columns
from hackmatrix.bench.scaling.curves import COMPILED, MEASURED, Point
from hackmatrix.errors import UserError
from hackmatrix.train.runs.provenance import git

_ROOT = Path(__file__).parents[3]
_WIDTHS = (6, 7, 5, 8, 10, 10, 10, 10, 8, 8, 9, 7, 9)
_COLUMNS = (
    "kind", "devices", "hosts", "envs/dev", "batch", "steps/s", "per device", "efficiency",
    "p50 ms", "p95 ms", "compile s", "repeats", "source",
)  # fmt: skip
_SPEEDS = (
    "steps_per_second", "steps_per_second_a_device", "efficiency", "step_p50", "step_p95",
    "compile_seconds",
)  # fmt: skip


def check(directory: Path) -> None:
    """Raises UserError if the directory cannot be written, before hours of measuring."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UserError(f"--out={directory}: {error.strerror or error}") from error


def made_with() -> dict[str, str]:
    """Returns what the numbers depend on besides the machine."""
    found = git(_ROOT) or {"revision": "unknown", "dirty": False}
    return {
        "revision": found["revision"] + ("-dirty" if found["dirty"] else ""),
        "jax": jax.__version__,
        "command": " ".join(sys.argv[1:]),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "libtpu_init_args": os.environ.get("LIBTPU_INIT_ARGS", ""),
    }


def show(points: Iterable[Point], made: Mapping[str, str], report: Report) -> Iterator[Point]:
    """Prints each point as it comes, and yields it."""
    report.say(_in_a_line(made))
    report.say(in_columns(_COLUMNS, _WIDTHS))
    for point in points:
        report.tell("scaling", {**asdict(point), **made}, in_columns(_cells(point), _WIDTHS))
        yield point


def write(points: list[Point], made: Mapping[str, str], directory: Path) -> Iterator[str]:
    """Writes the table, events and plot, and yields a line on each. Raises UserError at the end if
    one of them cannot be written.
    """
    # A folder for each benchmark, so that TensorBoard shows several side by side.
    events = directory / "tensorboard" / f"{datetime.now():%y%m%d-%H%M%S}"
    files: dict[Path, tuple[str, Callable[[list[Point], Mapping[str, str], Path], None]]] = {
        directory / "scaling.csv": ("table: {}", _write_table),
        events: ("tensorboard --logdir {}", _write_events),
    }
    has_plots = importlib.util.find_spec("matplotlib")
    if has_plots:
        files[directory / "scaling.png"] = "plot: {}", _write_plot
    failures = []
    for path, (line, write_to) in files.items():
        try:
            _keep_earlier(path)
            write_to(points, made, path)
            yield line.format(path)
        except OSError as error:
            failures.append(f"--out={directory}: {path.name}: {error.strerror or error}")
    if not has_plots:
        yield "no plot (no matplotlib): pip install -e '.[bench]' -c constraints.txt"
    if failures:
        raise UserError("\n".join(failures))


def _keep_earlier(path: Path) -> None:
    """Renames the file of an earlier benchmark, if there is one, by the time it was written."""
    if path.is_file():
        written = datetime.fromtimestamp(path.stat().st_mtime)
        path.rename(path.with_stem(f"{path.stem}-{written:%y%m%d-%H%M%S}"))


def _write_table(points: list[Point], made: Mapping[str, str], path: Path) -> None:
    """Every row says what it was made with, so that rows of several files can be combined."""
    with path.open("w", newline="") as file:
        rows = [{**asdict(point), **made} for point in points]
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _write_events(points: list[Point], made: Mapping[str, str], directory: Path) -> None:
    """Writes events whose step is the number of devices."""
    from tensorboardX import SummaryWriter

    text = "\n".join(f"    {name}: {value}" for name, value in made.items())
    for name, own in _series(points).items():
        with SummaryWriter(str(directory / name)) as writer:
            writer.add_text("made_with", text)
            for point in own:
                values = asdict(point)
                for speed in _SPEEDS:
                    if values[speed] is not None:
                        writer.add_scalar(f"scaling/{speed}", values[speed], point.devices)


def _write_plot(points: list[Point], made: Mapping[str, str], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.5), layout="constrained")
    panels = zip(
        figure.subplots(1, 3),
        ("steps_per_second", "efficiency", "compile_seconds"),
        ("steps/s", "efficiency", "seconds to compile"),
        strict=True,
    )
    for axes, attribute, title in panels:
        for name, own in _series(points).items():
            drawn = [point for point in own if getattr(point, attribute) is not None]
            heights = [getattr(point, attribute) for point in drawn]
            if drawn:
                axes.plot([point.devices for point in drawn], heights, "o-", label=name)
        axes.set(xlabel=_devices(points), title=title, ylim=(0, None))
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.supxlabel(textwrap.fill(_in_a_line(made), 180), fontsize=7)
    figure.savefig(path, dpi=120)


def _series(points: list[Point]) -> dict[str, list[Point]]:
    """Returns the points of each measured curve, and those that were only compiled."""
    series: dict[str, list[Point]] = {}
    for point in points:
        name = COMPILED if point.source == COMPILED else point.kind
        series.setdefault(name, []).append(point)
    return series


def _devices(points: list[Point]) -> str:
    others = dict.fromkeys(point.source for point in points if point.source != MEASURED)
    return f"devices ({', '.join(others)})" if others else "devices"


def _in_a_line(made: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in made.items() if value)


def _cells(point: Point) -> tuple[str, ...]:
    return (
        point.kind,
        f"{point.devices}",
        f"{point.hosts}",
        f"{point.envs_a_device}",
        f"{point.batch:,}",
        _number(point.steps_per_second, ",.0f"),
        _number(point.steps_per_second_a_device, ",.0f"),
        _number(point.efficiency, ".2f"),
        _number(point.step_p50, ".1f", 1e3),
        _number(point.step_p95, ".1f", 1e3),
        _number(point.compile_seconds, ".1f"),
        f"{point.repeats}",
        point.source,
    )


def _number(value: float | None, form: str, scale: float = 1) -> str:
    return "" if value is None else format(scale * value, form)
