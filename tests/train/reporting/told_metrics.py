"""Metrics that sinks wrote, read back as other programs would read them; and an evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tensorboardX.proto.event_pb2 import SessionLog

from hackmatrix.rl.tally import RETURN
from hackmatrix.train.reporting.sinks import Metrics
from tests.train.reporting.event_files import events

METRICS = {"train/entropy": 2.5, "perf/steps_per_second": 12_000.0, "reward/kills": -0.125}


def evaluation(step: int, /, **told: Any) -> str:
    """Returns a small evaluation.json of this step."""
    estimate = {"mean": 1.0, "low": None, "high": None}
    players = {"agent": {RETURN: estimate}, "random": {RETURN: estimate}}
    return json.dumps({"step": step, "episodes": 256, "seed": 0, **players, **told})


class Scalar(NamedTuple):
    step: int
    tag: str
    value: float


class Memory:
    """A sink that stores what it is given in memory."""

    def __init__(self) -> None:
        self.written: list[tuple[int, Metrics]] = []
        self.is_closed = False

    def write(self, step: int, metrics: Metrics) -> None:
        self.written.append((step, metrics))

    def close(self) -> None:
        self.is_closed = True


def lines(path: Path) -> list[dict[str, Any]]:
    """Returns the objects of a file with one a line, parsed strictly."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def scalars(directory: Path) -> list[Scalar]:
    """Returns what TensorBoard shows: a start purges earlier events of its step and later ones."""
    shown: list[Scalar] = []
    for event in events(directory):
        if event.session_log.status == SessionLog.START:
            shown = [each for each in shown if each.step < event.step]
        shown += [Scalar(event.step, each.tag, each.simple_value) for each in event.summary.value]
    return shown
