"""Training: chunks of updates, with a look at the run in between."""

from __future__ import annotations

from hackmatrix.errors import UserError
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.checkpointer import Checkpointer
from hackmatrix.train.guards.guard import Guard
from hackmatrix.train.program import Program
from hackmatrix.train.reporting.evaluator import Evaluator
from hackmatrix.train.reporting.reporter import Reporter


def train(
    state: TrainState,
    program: Program,
    guard: Guard,
    reporter: Reporter,
    evaluator: Evaluator,
    checkpointer: Checkpointer,
) -> TrainState:
    """Trains until all updates are done or the guard stops the run. Returns the last state, which
    is saved if possible. All processes stop and save at the same update.
    """
    schedule = checkpointer.schedule
    update = schedule.update
    while updates := guard.next_chunk(update, checkpointer.training_seconds(update)):
        reporter.before_chunk(update, state)
        with reporter.starting():
            state, report = program.run(state, updates, schedule.extra_updates)
            if update == schedule.update:
                _check_count(update + updates, state, program.config.algorithm)
        update += updates
        reporter.after_chunk(update, updates, report)  # reports the previous chunk while this runs
        if guard.is_comparison_due(update, updates):
            with reporter.untimed():
                guard.compare_now(state.learner)
        evaluation = None
        if evaluator.is_due(update, checkpointer.training_seconds(update)):
            with reporter.untimed():
                # This includes compiling the evaluation.
                guard.arm("No evaluation game was played")
                evaluation = evaluator.measure(update, state.learner)
                guard.arm_for_chunk()
        if evaluation:
            reporter.evaluated(evaluation)
        if checkpointer.is_due(update, evaluation):
            with reporter.untimed():
                reporter.flush()  # a broken chunk must not be saved
                guard.compare_now(state.learner)  # nor a state whose replicas differ
                checkpointer.save(update, state, evaluation)
                reporter.replay_checkpoint(update, state.learner)
    reporter.finish(state)
    if checkpointer.is_unsaved(update):
        guard.compare_now(state.learner)
    guard.arm("The last state was not saved")
    checkpointer.finish(update, state)
    return state


def _check_count(update: int, state: TrainState, algorithm: str) -> None:
    """Raises UserError if the algorithm does not advance `learner.update`: it would use the same
    random keys in every update.
    """
    if int(state.learner.update) != update:
        raise UserError(f"algorithm={algorithm}: its `update` must add 1 to the learner's `update`")
