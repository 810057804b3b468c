"""What a scaling benchmark leaves: a table for people, scaling.csv, scaling.png, TensorBoard."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import jax

from hackmatrix.bench.scaling import SIMULATED, Point
from hackmatrix.train.provenance import git
from hackmatrix.train.sinks import TensorBoard

_ROOT = Path(__file__).parents[2]
_WIDTHS = (6, 7, 5, 8, 9, 10, 10, 10, 8, 8, 9, 10)
_COLUMNS = (
    "kind", "devices", "hosts", "envs/dev", "batch", "steps/s", "a device", "efficiency",
    "p50 ms", "p95 ms", "compile s", "source",
)  # fmt: skip


def show(points: Iterable[Point], as_json: bool) -> list[Point]:
    """Prints each point as it comes, and gives them all."""
    if not as_json:
        print(_row(_COLUMNS), flush=True)
    shown = []
    for point in points:
        text = json.dumps({"what": "scaling", **asdict(point)}) if as_json else _row(_cells(point))
        print(text, flush=True)
        shown.append(point)
    return shown


def write(points: list[Point], directory: Path) -> list[str]:
    """Also says what was written, a line each."""
    directory.mkdir(parents=True, exist_ok=True)
    _write_table(points, directory / "scaling.csv")
    _write_events(points, directory)
    written = [f"table: {directory / 'scaling.csv'}", f"tensorboard --logdir {directory}"]
    if not importlib.util.find_spec("matplotlib"):
        return [*written, "no plot: install matplotlib, or the extra hackmatrix[bench]"]
    _write_plot(points, directory / "scaling.png")
    return [*written, f"plot: {directory / 'scaling.png'}"]


def _write_table(points: list[Point], path: Path) -> None:
    """Every row says what it was made with, so that rows of several files can be put together."""
    found = git(_ROOT) or {"revision": "unknown", "dirty": False}
    made_with = {
        "revision": found["revision"] + ("-dirty" if found["dirty"] else ""),
        "jax": jax.__version__,
        "command": " ".join(sys.argv[1:]),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "libtpu_init_args": os.environ.get("LIBTPU_INIT_ARGS", ""),
    }
    with path.open("w", newline="") as file:
        rows = [{**asdict(point), **made_with} for point in points]
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _write_events(points: list[Point], directory: Path) -> None:
    """The step of TensorBoard is the number of devices."""
    for kind in dict.fromkeys(point.kind for point in points):
        board = TensorBoard(directory / "tensorboard" / kind)
        for point in points:
            if point.kind == kind:
                values = {
                    name: value for name, value in asdict(point).items() if type(value) is float
                }
                board.write(
                    point.devices, {f"scaling/{name}": value for name, value in values.items()}
                )
        board.close()


def _write_plot(points: list[Point], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    speed, efficiency = figure.subplots(1, 2)
    for kind in dict.fromkeys(point.kind for point in points):
        own = [point for point in points if point.kind == kind]
        devices = [point.devices for point in own]
        speed.plot(devices, [point.steps_per_second for point in own], "o-", label=kind)
        efficiency.plot(devices, [point.efficiency for point in own], "o-", label=kind)
    is_simulated = any(point.source == SIMULATED for point in points)
    for axes, title in ((speed, "steps/s"), (efficiency, "efficiency")):
        axes.set(xlabel="simulated devices" if is_simulated else "devices", title=title)
        axes.set_xscale("log", base=2)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120)


def _cells(point: Point) -> tuple[str, ...]:
    return (
        point.kind, f"{point.devices}", f"{point.hosts}", f"{point.envs_a_device}",
        f"{point.batch:,}", f"{point.steps_per_second:,.0f}",
        f"{point.steps_per_second_a_device:,.0f}", f"{point.efficiency:.2f}",
        f"{1e3 * point.step_p50:.0f}", f"{1e3 * point.step_p95:.0f}",
        f"{point.compile_seconds:.1f}", point.source,
    )  # fmt: skip


def _row(cells: tuple[str, ...]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
