"""A profiler trace of some updates of a run, for TensorBoard: what devices and Python were doing.

The first process traces itself and its own devices: the others run the same program in step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax

from hackmatrix.errors import UserError
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.runs.directory import Run


@dataclass(frozen=True)
class Span:
    """Consecutive updates. The first update of a run is number 1."""

    first: int
    last: int


def parse_span(text: str) -> Span:
    """Parses a span of updates written as START:COUNT."""
    start, count = map(int, text.split(":"))
    return Span(start, start + count - 1)


def check_span(wanted: Span | None, num_updates: int) -> None:
    """Raises UserError if the run has no such updates."""
    if wanted and wanted.last > num_updates:
        raise UserError(
            f"--profile asks for updates {wanted.first:,} to {wanted.last:,}, but the run has "
            f"{num_updates:,}: ask for earlier ones, or raise total_timesteps"
        )


class Tracer:
    """Traces the updates that are wanted, if any, and prints where the trace is."""

    def __init__(self, wanted: Span | None, run: Run, say: Callable[[str], None]) -> None:
        self._wanted, self._run, self._say = wanted, run, say
        self._is_tracing = self._is_done = False

    @property
    def ends(self) -> list[int]:
        """The update counts at which chunks must end for the trace to hold the wanted updates."""
        return [self._wanted.first - 1, self._wanted.last] if self._wanted else []

    def is_due(self, update: int) -> bool:
        """Whether a trace begins or ends after this many updates."""
        return update in self.ends and jax.process_index() == 0

    def reached(self, update: int, state: TrainState) -> None:
        """Begins or ends the trace after this many updates; `state` may not be computed yet."""
        assert self._wanted  # as it is due
        if update == self._wanted.first - 1:
            jax.block_until_ready(state)
            jax.profiler.start_trace(self._run.tensorboard)
            self._is_tracing = True
        elif update == self._wanted.last and self._is_tracing:
            self._stop(state)

    def finish(self, state: TrainState) -> None:
        """Ends a trace that is still running, after the last update, which returned `state`."""
        if self._is_tracing:
            self._stop(state)
        elif self._wanted and not self._is_done:
            self._say(f"No trace was recorded: update {self._wanted.first:,} was not run")

    def _stop(self, state: TrainState) -> None:
        jax.block_until_ready(state)
        self._is_tracing, self._is_done = False, True
        try:
            jax.profiler.stop_trace()
        except (OSError, jax.errors.JaxRuntimeError) as error:
            self._say(f"The trace could not be written; the run goes on: {error}")
        else:
            traces = self._run.lasting(self._run.tensorboard / "plugins/profile")
            self._say(f"The trace is in {traces}")
