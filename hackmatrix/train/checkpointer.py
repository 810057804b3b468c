"""The checkpointer of a run: restores the newest checkpoint, and saves when one is due."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import jax

from hackmatrix.envs.protocol import OlderLayout
from hackmatrix.parallel.agreement import any_process, broadcast, on_first
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.checkpoints.checkpoints import Checkpoints, Layout
from hackmatrix.train.checkpoints.savable import check_can_be_saved
from hackmatrix.train.checkpoints.scores import GAMES, SCORE
from hackmatrix.train.config.summary import with_unit
from hackmatrix.train.program import Program
from hackmatrix.train.reporting.evaluator import EvaluationResult
from hackmatrix.train.runs.clock import Clock
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.schedule import Schedule

_PATIENCE, _PAUSE = 300.0, 10.0  # seconds
_SECONDS = "seconds"  # the training time in the metadata of a checkpoint


class Checkpointer:
    """Restores the newest good state of a run and saves later ones. `schedule` says where the
    session starts: at the first update or, after `restore`, at the restored state. All processes
    call all methods together.
    """

    def __init__(
        self,
        run: Run,
        program: Program,
        clock: Clock,
        say: Callable[[str], None],
        before_saving: Callable[[], str | None] = lambda: None,
    ) -> None:
        """The first process calls `before_saving` before each save. It returns what prevents the
        save, if anything does, and raises UserError if this process no longer owns the run.
        """
        self._config, self._program, self._clock, self._say = run.config, program, clock, say
        self._before_saving, self.schedule = before_saving, Schedule(run.config, clock=clock)
        self._checkpoints = Checkpoints(
            run.checkpoints,
            keep=run.config.keep_checkpoints,
            milestones=run.config.keep_milestones,
            say=say,
        )
        self._saved_at = clock.seconds()
        self._saved_seconds = 0.0

    def restore(self) -> TrainState:
        """Returns the state to go on from: the newest good one, or a new one if none was saved."""
        check_can_be_saved(self._program.shapes)
        restored = self._checkpoints.restore_newest(*_layouts(self._program))
        if restored is None:
            return self._program.first_state()
        self._checkpoints.put_damaged_aside()  # else one could pass for the newest
        state = restored.state
        if state.players is None:
            state = self._with_new_games(state)
        self._say(f"Resuming from the checkpoint at step {restored.step:,}")
        # Checkpoints of older versions do not have the training time.
        self._saved_seconds = seconds = restored.metadata.get(_SECONDS, 0.0)
        update = int(state.learner.update)
        self.schedule = Schedule(self._config, update, restored.step, seconds, self._clock)
        return state

    def is_due(self, update: int, evaluation: EvaluationResult | None = None) -> bool:
        """Whether to save the state after this many updates: because it is time, or because the
        evaluation makes its agent the best so far.
        """
        return (evaluation is not None and self._is_best(evaluation)) or self._is_time(update)

    def save(
        self, update: int, state: TrainState, evaluation: EvaluationResult | None = None
    ) -> None:
        """Copies the state after this many updates; it is written while training continues."""
        step = self.schedule.steps_after(update)
        if obstacle := on_first(self._before_saving):
            self._say(f"The state at step {step:,} is not saved: {obstacle}")
            self._saved_at = self._clock.seconds()
            return
        score = {SCORE: evaluation.score, GAMES: self._config.eval_games} if evaluation else {}
        with self._clock.phase("save"):
            self._saved_seconds = self._trained()
            metadata = {"update": update, _SECONDS: self._saved_seconds, **score}
            self._checkpoints.save(step, state, metadata)
        self._saved_at = self._clock.seconds()

    def finish(self, update: int, state: TrainState) -> None:
        """Saves the last state and waits until it is written. A failure may pass, so it retries for
        some minutes after the first; then the state stays unsaved.
        """
        end = 0.0
        for attempt in itertools.count():
            if self.is_unsaved(update):
                self.save(update, state)
            self._checkpoints.wait()
            if not self.is_unsaved(update):
                return
            if not attempt:
                end = time.monotonic() + _PATIENCE
                self._say(f"Could not save the last state; retrying for {_PATIENCE / 60:g} minutes")
            elif any_process(time.monotonic() > end):
                return
            time.sleep(_PAUSE)

    def is_unsaved(self, update: int) -> bool:
        """Whether the state after this many updates is neither the session's first nor the one that
        was saved last. A save that is still being written counts, although it may fail.
        """
        step = self.schedule.steps_after(update)
        return update != self.schedule.update and step != self._checkpoints.saved

    def training_seconds(self, update: int) -> float:
        """Returns the training time at an update, in seconds. For a saved state it is that in its
        metadata: otherwise a run stopped by its time limit would train on when resumed.
        """
        return self._trained() if self.is_unsaved(update) else self._saved_seconds

    def steps(self) -> list[int]:
        """Returns the environment steps of the saved checkpoints."""
        return self._checkpoints.steps()

    def describe_newest(self) -> str:
        """Describes the newest checkpoint, for a message that the current state is lost."""
        try:
            steps = self.steps()
        except OSError as error:
            return f"the saved checkpoints cannot be listed: {error}"
        if not steps:
            return "no checkpoint was saved yet: start a new run"
        return f"the checkpoint at step {steps[-1]:,} is intact"

    def close(self) -> None:
        """Waits until the last checkpoint is written."""
        self._checkpoints.wait()

    def _is_best(self, evaluation: EvaluationResult) -> bool:
        try:
            best = self._checkpoints.best()
        except OSError as error:
            self._say(f"Cannot compare this agent with the best checkpoint: {error}")
            return False
        if best and best.games not in (None, self._config.eval_games):
            self._say(
                f"The best checkpoint, at step {best.step:,}, was evaluated on "
                f"{with_unit(best.games, 'game')}, so it is not comparable with this agent"
            )
            return True
        return on_first(lambda: best is None or evaluation.score > best.score)

    def _is_time(self, update: int) -> bool:
        if interval := self._config.save_interval:
            return update % interval == 0
        seconds = self._clock.seconds() - self._saved_at
        return any_process(seconds >= 60 * self._config.save_interval_minutes)

    def _trained(self) -> float:
        """Returns the training time by the first process's clock, on all processes."""
        return broadcast(self._clock.trained())

    def _with_new_games(self, state: TrainState) -> TrainState:
        """Returns a state with new games for its learner, as its boards do not fit this run."""
        self._say(
            "The number or kind of environments has changed: all begin new games; the optimiser's "
            "moving averages are still those of the old batches"
        )
        return state.replace(players=self._program.new_players(state.learner))


def _layouts(program: Program) -> Iterator[Layout]:
    """Yields the layouts that a saved state may have: today's; those with the boards of earlier
    versions of the environment; and the learner alone, where the boards do not fit this run.
    """
    shapes = program.shapes
    yield Layout(shapes)
    for older in program.env.older_layouts:
        yield _older(shapes, older)
    yield Layout(shapes.replace(players=None))


def _older(shapes: TrainState, older: OlderLayout) -> Layout:
    placed = jax.tree.map(lambda leaf: leaf.sharding, shapes.players.boards)
    upgraded = jax.jit(older.upgraded, out_shardings=placed)

    def upgrade(state: TrainState) -> TrainState:
        boards = upgraded(state.players.boards)
        return state.replace(players=state.players.replace(boards=boards))

    players = shapes.players.replace(boards=older.layout(shapes.players.boards))
    return Layout(shapes.replace(players=players), upgrade)
