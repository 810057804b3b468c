"""Prints results of benchmarks line by line: a table for people, or JSON lines for programs."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import jax

from hackmatrix.bench.compiled import Facts
from hackmatrix.bench.environment import Crowd
from hackmatrix.bench.timing import Rate
from hackmatrix.bench.training import Training
from hackmatrix.parallel.gpus import Gpus
from hackmatrix.parallel.slices import Slice
from hackmatrix.train.runs.provenance import versions

_COLUMNS = (
    "boards", "compile s", "steps/s", "(min - max)", "words only", "not observed",
    "own loop", "network", "of network", "own/network", "bytes/board",
)  # fmt: skip
_WIDTHS = (7, 9, 10, 21, 10, 12, 10, 8, 10, 11, 11)


@dataclass(frozen=True)
class Row:
    """The rates for one number of boards: with the observation, its words only, without it, and in
    a loop of one's own, with the observation.
    """

    boards: int
    compile_seconds: float
    observed: Rate
    words: Rate
    unobserved: Rate
    own_loop: Rate
    network: Rate  # alone, without the game
    bytes_per_board: int


class Report:
    """Prints each measurement as it comes, by `show`."""

    def __init__(self, as_json: bool, show: Callable[[str], None] = print) -> None:
        self._as_json, self._show = as_json, show

    def machine(self, used: int) -> None:
        """Prints which machine is measured, and that `used` of its devices are used."""
        device, others = jax.devices()[0], jax.device_count() - used
        is_simulated = device.platform == "cpu" and used > 1
        beside = f" ({others} more {'is' if others == 1 else 'are'} not used)" if others else ""
        beside += " (simulated: they share its cores)" if is_simulated else ""
        what = f"{used} x {device.device_kind}{beside}, jax {jax.__version__}"
        values = {"devices": what, "host": platform.machine(), "versions": versions()}
        self.tell("machine", values, f"On {what}:")

    def heading(self) -> None:
        """Prints the heading of the rows."""
        self.say(in_columns(_COLUMNS, _WIDTHS))

    def row(self, row: Row) -> None:
        of_network, own_of_network = (
            each.over(row.network) for each in (row.observed, row.own_loop)
        )
        cells = (
            f"{row.boards}",
            f"{row.compile_seconds:.1f}",
            *of_rate(row.observed),
            f"{row.words.median:,.0f}",
            f"{row.unobserved.median:,.0f}",
            f"{row.own_loop.median:,.0f}",
            f"{row.network.median:,.0f}",
            f"{of_network:.2f}",
            f"{own_of_network:.2f}",
            f"{row.bytes_per_board}",
        )
        values = {
            "boards": row.boards,
            "compile_seconds": row.compile_seconds,
            "steps_per_second": row.observed.as_json,
            "words_only": row.words.as_json,
            "not_observed": row.unobserved.as_json,
            "own_loop": row.own_loop.as_json,
            "network_alone": row.network.as_json,
            "of_network": of_network,
            "own_loop_of_network": own_of_network,
            "bytes_per_board": row.bytes_per_board,
        }
        self.tell("environment", values, in_columns(cells, _WIDTHS))

    def training(self, setting: str, result: Training) -> None:
        of_network = result.training.over(result.network)
        quartiles = result.training.quartiles_over(result.network)
        rates = {
            "training": result.training,
            "network alone": result.network,
            "rollouts alone": result.rollouts,
            "updates alone": result.updates,
        }
        lines = [f"Training, {setting}"]
        for name, rate in rates.items():
            middle, limits = of_rate(rate)
            lines.append(f"  {name:<16}{middle:>10} steps/s {limits}")
        lines += [
            f"  of network      {of_network:>10.3f}         "
            f"({quartiles[0]:.3f} - {quartiles[1]:.3f}, quartiles of "
            f"{len(result.training.samples)} pairs of updates)",
            f"  chunks          {100 * result.chunk_overhead:>+10.2f} % overhead of calls and of "
            "fetching metrics, compared with one call for the whole run",
            f"  compilations    {result.compilations:>10} after the first chunk, which took "
            f"{result.compile_seconds:.1f} s to compile",
            f"  memory          {result.peak_bytes / 2**20:>10.0f} MiB at peak; state "
            f"{result.state_bytes / 2**20:.1f}, temporary {result.temporary_bytes / 2**20:.1f} MiB "
            "per device",
        ]
        values = {
            "setting": setting,
            **{name.replace(" ", "_"): rate.as_json for name, rate in rates.items()},
            "of_network": of_network,
            "of_network_quartiles": quartiles,
            **{name: each for name, each in vars(result).items() if not isinstance(each, Rate)},
        }
        self.tell("training", values, "\n".join(lines))

    def crowd(self, crowd: Crowd, capacity: int) -> None:
        verdict = "was reached" if crowd.capacity_reached else "was not reached"
        text = (
            f"In {crowd.steps:,} random steps, a board had at most {crowd.enemies} enemies and "
            f"{crowd.transmissions} transmissions: the capacity of {capacity} {verdict}"
        )
        self.tell("crowd", {**asdict(crowd), "capacity_reached": crowd.capacity_reached}, text)

    def compiled(
        self,
        target: Slice | Gpus,
        boards: int,
        kernels: bool,
        facts: Facts,
        instructions: int,
        seconds: float,
    ) -> None:
        how = "with hand-written kernels" if kernels else "without hand-written kernels"
        parts = [
            f"A step {how}, for {target.name} ({target.chips} chips, {target.hosts} hosts), "
            f"{boards} boards per chip: {facts.fusions} fusions, {facts.others} other operations, "
            f"{facts.loops} loops, {len(facts.collectives)} kinds of collective",
            f"{facts.temporary_bytes / 2**20:.1f} MiB of temporary memory",
            f"{seconds:.1f} s to compile",
        ]
        if target.platform == "tpu":
            parts[1:1] = [
                f"{instructions:,} instruction bundles",
                f"{facts.code_bytes / 2**20:.1f} MiB of code",
                f"at most {facts.scratch_bytes / 2**20:.1f} MiB of on-chip scratch memory",
            ]
        else:
            besides = ", not counting the hand-written kernel" if kernels else ""
            parts.insert(1, f"{instructions:,} instructions per thread{besides}")
        values = {
            "slice": target.name,
            "boards_per_device": boards,
            "kernels": kernels,
            "instructions": instructions,
            "compile_seconds": seconds,
        }
        self.tell("compiled", {**values, **asdict(facts)}, "; ".join(parts))

    def say(self, text: str) -> None:
        """Prints a text for people only, such as the heading of a table."""
        if not self._as_json:
            self._show(text)

    def tell(self, what: str, values: Mapping[str, Any], text: str) -> None:
        """Prints a measurement: its values as JSON for programs, or its text for people."""
        self._show(json.dumps({"what": what, **values}) if self._as_json else text)


def in_columns(cells: Iterable[str], widths: Iterable[int]) -> str:
    """Returns a line of a table, with each cell right-aligned in its column."""
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def of_rate(rate: Rate) -> tuple[str, str]:
    """Returns the median of a rate, and the range of its samples, as text."""
    return f"{rate.median:,.0f}", f"({rate.low:,.0f} - {rate.high:,.0f})"
