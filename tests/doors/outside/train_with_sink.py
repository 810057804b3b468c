"""`launch.train` with one more sink, which prints the step and the return of every chunk."""

from __future__ import annotations

from collections.abc import Mapping

from absl import app

from hackmatrix.train.config.command_line import parser
from hackmatrix.train.reporting.sink_list import SINKS
from launch import train


class Printer:
    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        print(f"sink: {step} {metrics['train/mean_episode_return']}", flush=True)

    def close(self) -> None:
        print("sink: closed", flush=True)


if __name__ == "__main__":
    SINKS.append(lambda context: Printer())
    app.run(train.main, flags_parser=parser(train.PROGRAM))
