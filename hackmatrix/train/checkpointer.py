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
_SECONDS = "seconds"  # of training, in the metadata of a checkpoint


class Checkpointer:
    """Finds the newest good state of a run, and saves those that follow. `schedule` tells where the
    session starts: once it is restored, at that state. All processes call all of this together.
    """

    def __init__(
        self,
        run: Run,
        program: Program,
        clock: Clock,
        say: Callable[[str], None],
        before_saving: Callable[[], str | None] = lambda: None,
    ) -> None:
        """The first process calls `before_saving`, which tells what stands in the way, if anything
        does, and raises a UserError where the run is not ours to save to any more.
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
        """The state to go on from; a new one, where nothing was saved."""
        check_can_be_saved(self._program.shapes)
        restored = self._checkpoints.restore_newest(*_layouts(self._program))
        if restored is None:
            return self._program.first_state()
        self._checkpoints.put_damaged_aside()  # nobody is to take it for the newest
        state = restored.state
        if state.players is None:
            state = self._with_new_games(state)
        self._say(f"Resuming from the checkpoint at step {restored.step:,}")
        # Those of older runs are not known.
        self._saved_seconds = seconds = restored.metadata.get(_SECONDS, 0.0)
        update = int(state.learner.update)
        self.schedule = Schedule(self._config, update, restored.step, seconds, self._clock)
        return state

    def is_due(self, update: int, evaluation: EvaluationResult | None = None) -> bool:
        """Whether the state after so many updates is to be saved: because it is time, or because
        its agent was evaluated to be better than all that are kept.
        """
        return (evaluation is not None and self._is_best(evaluation)) or self._is_time(update)

    def save(
        self, update: int, state: TrainState, evaluation: EvaluationResult | None = None
    ) -> None:
        """Copies the state after so many updates; it is written while the run goes on."""
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
        """Saves the last state, and waits until it is kept. What stands in the way may pass, so it
        is tried for some minutes; after that it stays unsaved.
        """
        end = time.monotonic() + _PATIENCE
        for attempt in itertools.count():
            if self.is_unsaved(update):
                self.save(update, state)
            self._checkpoints.wait()
            if not self.is_unsaved(update):
                return
            if any_process(time.monotonic() > end):
                return
            if not attempt:
                self._say(f"Saving the last state is tried again, for {_PATIENCE / 60:g} minutes")
            time.sleep(_PAUSE)

    def is_unsaved(self, update: int) -> bool:
        """Whether the state after so many updates is neither the one to begin with nor the one that
        was saved last, as far as is known: a save that is under way may still fail.
        """
        step = self.schedule.steps_after(update)
        return update != self.schedule.update and step != self._checkpoints.saved

    def training_seconds(self, update: int) -> float:
        """The training seconds at an update. Of a saved state, those in its metadata: otherwise a
        run stopped by its time limit would train on when resumed.
        """
        return self._trained() if self.is_unsaved(update) else self._saved_seconds

    def steps(self) -> list[int]:
        """The environment steps of the states that are kept."""
        return self._checkpoints.steps()

    def what_is_kept(self) -> str:
        """In words, for whoever has lost the state that was trained."""
        try:
            steps = self.steps()
        except OSError as error:
            return f"what is kept cannot be told: {error}"
        if not steps:
            return "nothing was saved yet, so begin a new run"
        return f"the checkpoint at step {steps[-1]:,} is good and kept"

    def close(self) -> None:
        """Waits until the last state is on the disk."""
        self._checkpoints.wait()

    def _is_best(self, evaluation: EvaluationResult) -> bool:
        try:
            best = self._checkpoints.best()
        except OSError as error:
            self._say(f"Whether this agent is the best cannot be told: {error}")
            return False
        if best and best.games not in (None, self._config.eval_games):
            self._say(
                f"The best so far, at step {best.step:,}, was measured by "
                f"{with_unit(best.games, 'game')}, and is not compared with this agent"
            )
            return True
        return on_first(lambda: best is None or evaluation.score > best.score)

    def _is_time(self, update: int) -> bool:
        if interval := self._config.save_interval:
            return update % interval == 0
        seconds = self._clock.seconds() - self._saved_at
        return any_process(seconds >= 60 * self._config.save_interval_minutes)

    def _trained(self) -> float:
        """By the clock of the first process, on all of them."""
        seconds: float = broadcast(self._clock.trained())
        return seconds

    def _with_new_games(self, state: TrainState) -> TrainState:
        """The learner that was saved, on boards of another number or kind than it had."""
        self._say(
            "The environments changed in number or kind: they all begin new games, and the "
            "optimiser's averages are from the former batches"
        )
        return state.replace(players=self._program.new_players(state.learner))


def _layouts(program: Program) -> Iterator[Layout]:
    """The ways in which a state may have been saved: as today, with boards as an earlier version of
    the environment laid them out, or with boards that are of no use to this run.
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
