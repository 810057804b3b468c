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
    if it was resumed, and who prints a line.
    """

    run: Run
    resumed_at: int | None
    say: Callable[[str], None]


def _json_lines(context: SinkContext) -> Sink:
    return JsonLines(context.run.metrics, context.resumed_at)


def _tensorboard(context: SinkContext) -> Sink:
    run, step = context.run, context.resumed_at
    purge_step = None if step is None else step + 1
    return TensorBoard(run.tensorboard, purge_step, run.config.settings())


def _weights_and_biases(context: SinkContext) -> Sink | None:
    if not context.run.config.wandb:
        return None
    rewind_to = context.resumed_at if context.run.config.rewind else None
    return WeightsAndBiases(context.run, rewind_to, say=context.say)


# Each opens its sink, or gives None where it is not wanted. Only the first process calls them.
SINKS: list[Callable[[SinkContext], Sink | None]] = [_json_lines, _tensorboard, _weights_and_biases]
