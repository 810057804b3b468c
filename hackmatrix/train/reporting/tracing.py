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
    """Updates in a row. The first update of a run is number 1."""

    first: int
    last: int


def parse_span(text: str) -> Span:
    """The span of updates that START:COUNT names."""
    start, count = map(int, text.split(":"))
    return Span(start, start + count - 1)


def check_span(wanted: Span | None, num_updates: int) -> None:
    """UserError where the run has no such updates."""
    if wanted and wanted.last > num_updates:
        raise UserError(
            f"--profile asks for updates {wanted.first:,} to {wanted.last:,}, but the run has "
            f"{num_updates:,}: ask for earlier ones, or raise total_timesteps"
        )


class Tracer:
    """Traces the updates that are wanted, if any, and says where the trace lies."""

    def __init__(self, wanted: Span | None, run: Run, say: Callable[[str], None]) -> None:
        self._wanted, self._run, self._say = wanted, run, say
        self._is_tracing = self._is_done = False

    @property
    def ends(self) -> list[int]:
        """The numbers of updates at which a chunk has to end, for the trace to hold whole ones."""
        return [self._wanted.first - 1, self._wanted.last] if self._wanted else []

    def is_due(self, update: int) -> bool:
        """Whether a trace begins or ends after so many updates."""
        return update in self.ends and jax.process_index() == 0

    def reached(self, update: int, state: TrainState) -> None:
        """A trace is due: so many updates have been started, the last of which gives this state."""
        assert self._wanted  # as it is due
        if update == self._wanted.first - 1:
            jax.block_until_ready(state)
            jax.profiler.start_trace(self._run.tensorboard)
            self._is_tracing = True
        elif update == self._wanted.last and self._is_tracing:
            self._stop(state)

    def finish(self, state: TrainState) -> None:
        """No update follows the one that gives this state."""
        if self._is_tracing:
            self._stop(state)
        elif self._wanted and not self._is_done:
            self._say(f"No trace is made: update {self._wanted.first:,} was not among those done")

    def _stop(self, state: TrainState) -> None:
        jax.block_until_ready(state)
        self._is_tracing, self._is_done = False, True
        try:
            jax.profiler.stop_trace()
        except (OSError, jax.errors.JaxRuntimeError) as error:
            self._say(f"The trace is not written, the run goes on: {error}")
        else:
            traces = self._run.lasting(self._run.tensorboard / "plugins/profile")
            self._say(f"A trace is in {traces}")
