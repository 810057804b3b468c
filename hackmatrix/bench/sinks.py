"""Benchmark of the sinks: the time to write a chunk's metrics, as a share of the chunk's time."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hackmatrix.bench.report import Report, in_columns
from hackmatrix.bench.scaling.subprocesses import environment
from hackmatrix.bench.timing import Work, in_turns
from hackmatrix.parallel import mesh
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.config import Config
from hackmatrix.train.program import Program
from hackmatrix.train.reporting import metric_catalogue, weights_and_biases
from hackmatrix.train.reporting.console import Console
from hackmatrix.train.reporting.progress import Progress
from hackmatrix.train.reporting.sinks import JsonLines, Sink, TensorBoard
from hackmatrix.train.reporting.weights_and_biases import WeightsAndBiases
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.schedule import Schedule

WRITES = 100
MOST = 0.01  # the share of training time that all sinks may take
_WIDTHS = (17, 12, 12, 12)


@dataclass(frozen=True)
class Cost:
    """Seconds that training waits for a sink."""

    sink: str
    once: float  # the first write, which opens files, and closing
    a_chunk: float  # the mean of all other writes
    of_training: float


@dataclass(frozen=True)
class Found:
    setting: str
    chunk_seconds: float
    costs: tuple[Cost, ...]

    @property
    def of_training(self) -> float:
        """The share of a chunk's time that all sinks take together."""
        return sum(cost.of_training for cost in self.costs)


def measure(config: Config, seconds: float) -> Found:
    """Measures each sink on temporary files; Weights & Biases is offline, and only if installed."""
    program = Program(config, mesh.over())
    chunk_seconds, metrics = _chunk(program, seconds)
    setting = (
        f"{config.algorithm} on {config.env} with {config.network}, {config.num_envs} x "
        f"{config.num_steps}, {config.log_interval} updates per chunk, {len(metrics)} metrics"
    )
    with tempfile.TemporaryDirectory() as directory, environment(WANDB_MODE="offline"):
        costs = [_cost(sink, metrics, chunk_seconds) for sink in _sinks(program, Path(directory))]
    return Found(setting, chunk_seconds, tuple(costs))


def tell(found: Found, report: Report) -> None:
    values = {**asdict(found), "of_training": found.of_training}
    report.tell("sinks", values, "\n".join(_lines(found)))


def _lines(found: Found) -> Iterator[str]:
    yield f"A chunk takes {found.chunk_seconds:.2f} s: {found.setting}"
    yield in_columns(("sink", "start+end s", "ms per chunk", "of training"), _WIDTHS)
    for cost in found.costs:
        numbers = f"{cost.once:.3f}", f"{1e3 * cost.a_chunk:.3f}", f"{cost.of_training:.4%}"
        yield in_columns((cost.sink, *numbers), _WIDTHS)
    verdict = "under" if found.of_training < MOST else "OVER"
    yield f"All sinks: {found.of_training:.4%} of training, {verdict} the limit of {MOST:.0%}"


def _chunk(program: Program, seconds: float) -> tuple[float, Mapping[str, float]]:
    """Returns the seconds that a chunk takes, and its metrics."""
    config = program.config
    told: dict[str, float] = {}
    progress = Progress(program, Schedule(config), lambda step, metrics: told.update(metrics))

    def run(state: TrainState) -> TrainState:
        state, report = program.run(state, config.log_interval)
        progress.add(config.log_interval, config.log_interval, report)
        progress.flush()
        return state

    (rate,) = in_turns(Work(run, program.first_state(), 1), seconds=seconds)
    return 1 / rate.median, told


def _sinks(program: Program, directory: Path) -> Iterator[Sink]:
    run = Run(directory, program.config)
    metrics = metric_catalogue.metrics(program.env, program.algorithm)
    with open(os.devnull, "w", encoding="utf-8") as nobody:
        yield Console(program.config, metrics, nobody)
        yield JsonLines(run.metrics)
        yield TensorBoard(run.tensorboard)
        if weights_and_biases.is_installed():
            yield WeightsAndBiases(run, say=lambda line: None)


def _cost(sink: Sink, metrics: Mapping[str, float], chunk_seconds: float) -> Cost:
    start = time.perf_counter()
    sink.write(0, metrics)
    opened = time.perf_counter()
    for step in range(1, WRITES + 1):
        sink.write(step, metrics)
    written = time.perf_counter()
    sink.close()
    once = opened - start + time.perf_counter() - written
    a_chunk = (written - opened) / WRITES
    return Cost(type(sink).__name__, once, a_chunk, a_chunk / chunk_seconds)
