"""Training: chunks of updates, with a look at the run in between."""

from __future__ import annotations

from hackmatrix.errors import UserError
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.guards.guard import Guard
from hackmatrix.train.keeper import Keeper
from hackmatrix.train.program import Program
from hackmatrix.train.reporting.reporter import Reporter
from hackmatrix.train.reporting.yardstick import Yardstick
from hackmatrix.train.runs.course import Course


def train(
    state: TrainState,
    course: Course,
    program: Program,
    guard: Guard,
    reporter: Reporter,
    yardstick: Yardstick,
    keeper: Keeper,
) -> TrainState:
    """Trains until all updates are done or the guard stops the run; gives the last state, which is
    saved if that can be done. All processes stop and save at the same update.
    """
    update = course.update
    while updates := guard.next_chunk(update, keeper.seconds(update)):
        reporter.before_chunk(update, state)
        with reporter.starting():
            state, report = program.run(state, updates, course.extra_updates)
            if update == course.update:
                _check_count(update + updates, state, course)
        update += updates
        reporter.after_chunk(update, updates, report)  # tells of the chunk before, as this one runs
        if guard.is_comparison_due(update, updates):
            with reporter.apart():
                guard.compare_now(state.learner)
        measured = None
        if yardstick.is_due(update, keeper.seconds(update)):
            with reporter.apart():
                guard.expect("No game to measure by was played")  # it is compiled before
                measured = yardstick.measure(update, state.learner)
                guard.expect_chunk()
        if measured:
            reporter.measured(measured)
        if keeper.is_due(update, measured):
            with reporter.apart():
                reporter.flush()  # a broken chunk must not be saved
                guard.compare_now(state.learner)  # nor a state that devices do not share
                keeper.save(update, state, measured)
                reporter.saved(update, state.learner)
    reporter.finish(state)
    if keeper.lacks(update):
        guard.compare_now(state.learner)
    guard.expect("The last state was not saved")
    keeper.finish(update, state)
    return state


def _check_count(update: int, state: TrainState, course: Course) -> None:
    """Whoever does not count its updates draws the same numbers in all of them."""
    if int(state.learner.update) != update:
        raise UserError(
            f"algorithm={course.config.algorithm} does not count: its `update` has to add 1 to the "
            "learner's `update`"
        )
