"""Where metrics go besides the console: the list of sinks, and what each is opened with.

To add a sink of your own, append to SINKS before training begins. Nothing here needs JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hackmatrix.train.reporting.sinks import JsonLines, Sink, TensorBoard
from hackmatrix.train.reporting.weights_and_biases import WeightsAndBiases
from hackmatrix.train.runs.directory import Run


@dataclass(frozen=True)
class SinkContext:
    """What a sink may ask for when it is opened: the run, the environment step that it goes on from
    if it was resumed, whether it forgets what came after that step, and who prints a line.
    """

    run: Run
    resumed_at: int | None
    rewinds: bool
    say: Callable[[str], None]

    @property
    def rewind_to(self) -> int | None:
        return self.resumed_at if self.rewinds else None


def _json_lines(context: SinkContext) -> Sink:
    return JsonLines(context.run.metrics, context.rewind_to)


def _tensorboard(context: SinkContext) -> Sink:
    step = context.resumed_at
    return TensorBoard(context.run.tensorboard, purge_step=None if step is None else step + 1)


def _weights_and_biases(context: SinkContext) -> Sink | None:
    if not context.run.config.wandb:
        return None
    return WeightsAndBiases(context.run, context.rewind_to, say=context.say)


# Each opens its sink, or gives None where it is not wanted. Only the first process calls them.
SINKS: list[Callable[[SinkContext], Sink | None]] = [_json_lines, _tensorboard, _weights_and_biases]
