"""A session of a run: from a request to a trained agent, its checkpoints and its curves."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import jax

from hackmatrix.exit_codes import DONE, RETRY
from hackmatrix.parallel.agreement import is_first, on_first
from hackmatrix.parallel.failures import told_if_too_large
from hackmatrix.rl.evaluation import Interrupted
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.config import reading, resolve
from hackmatrix.train.config.summary import differences, summary, time_is_up, too_large
from hackmatrix.train.failing import after_failing, leave_no_trace
from hackmatrix.train.guards.guard import Guard
from hackmatrix.train.guards.signals import NOTHING_TO_SAVE
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.guards.watchdog import LONG
from hackmatrix.train.keeper import Keeper
from hackmatrix.train.loop import train
from hackmatrix.train.plan import Plan, Request, agree
from hackmatrix.train.program import Program
from hackmatrix.train.reporting import declared
from hackmatrix.train.reporting.console import Console
from hackmatrix.train.reporting.progress import Broken
from hackmatrix.train.reporting.replays import Play, Replays
from hackmatrix.train.reporting.reporter import Reporter
from hackmatrix.train.reporting.sink_list import SinkContext, Sinks, opened
from hackmatrix.train.reporting.sinks import load_ahead
from hackmatrix.train.reporting.tracing import Tracer, check_span
from hackmatrix.train.reporting.yardstick import Yardstick
from hackmatrix.train.runs import directory
from hackmatrix.train.runs.clock import Clock
from hackmatrix.train.runs.course import Course
from hackmatrix.train.runs.mirror import Mirror

FOR_GAMES = {"eval_episodes", "resume"}  # what a session without training takes
_AS_SAVED = "Stopped; what was saved stays"
_WITHOUT_EVALUATION = "Stopped before the evaluation, which --resume plays; all is saved"
_WITHOUT_A_PAGE = "Stopped; only the page of the best game is missing"
_AT_THE_END = "Stopped while finishing; --resume completes whatever is missing"


def run_session(
    request: Request, play: Play, supervision: Supervision | None = None, *, is_last: bool = True
) -> int:
    """Trains as requested, in a new run or in the one to resume; gives the exit code. `play` makes
    pages of games. If it `is_last` of what the program does, a signal while only such a page is
    missing leaves it DONE; else that is RETRY, as more follows. It is RETRY, too, if a file did not
    come to the run's bucket.
    """
    clock, supervision = Clock(), supervision or Supervision()
    supervision.signals.ends(NOTHING_TO_SAVE)
    with ExitStack() as leaving:

        def hold(plan: Plan) -> None:
            assert plan.lease  # this is the first process
            leaving.enter_context(plan.lease)
            if not plan.run.bucket:  # where a supervisor sees whether it has begun
                supervision.note(str(plan.run.place))
            leave_no_trace(supervision, plan)

        plan, program = agree(request, hold)
        supervision.note(str(plan.run.place))
        with told_if_too_large(too_large(plan.config)):
            console = _console(plan, program)
            mirror = leaving.enter_context(Mirror(plan.run, plan.lease, console.say))
            leaving.push(functools.partial(after_failing, supervision, plan))

            def leave() -> int | None:
                leaving.close()
                return None if mirror.has_sent_all else RETRY

            program.seek()
            _tell_what_runs(console, plan, program)
            keeper = _keeper(plan, program, clock, console, mirror)
            state, course = _restored(plan, keeper, supervision, console)
            code = _Session(
                plan, program, course, console, clock, keeper, supervision, leave, is_last
            ).run(state, play, request.given)
            supervision.signals.ends(_AT_THE_END)
    if not on_first(lambda: mirror.has_sent_all):  # all wait for the first, which may write
        code = RETRY
    supervision.signals.ends(_AT_THE_END, code if is_last else RETRY)
    return code


class _Session:
    """What the phases of a session share. `leave` is what is done with the run at its end."""

    def __init__(
        self,
        plan: Plan,
        program: Program,
        course: Course,
        console: Console,
        clock: Clock,
        keeper: Keeper,
        supervision: Supervision,
        leave: Callable[[], int | None],
        is_last: bool,
    ) -> None:
        self._plan, self._program, self._course, self._keeper = plan, program, course, keeper
        self._console, self._clock = console, clock
        self._signals, self._leave = supervision.signals, leave
        self._code_of_pages = DONE if is_last else RETRY  # once all but pages is there
        self._tracer = Tracer(plan.trace, plan.run, console.say)
        self._guard = Guard(course, program.mesh, supervision, self._tracer.ends)
        self._yardstick = Yardstick(
            plan.run, program, course, clock, console.say, self._guard.goes_on
        )

    def run(self, state: TrainState, play: Play, given: Mapping[str, Any]) -> int:
        """Does what is left to do; gives the exit code."""
        trains = not self._course.is_over
        if trains:
            self._begin()
        else:
            self._tell_what_is_not_taken(given)
            if not self._yardstick.lacks_final_games(state):
                self._tell_that_it_is_finished()
                return DONE
        return self._go_on(state, play, trains=trains)

    def _begin(self) -> None:
        """From here on the run is what this session makes of it."""
        if self._plan.resumes:
            on_first(functools.partial(directory.write_down, self._plan.run))
            self._yardstick.forget_what_is_done_again()
        if is_first():  # which writes
            load_ahead()
        self._guard.expect("The training program was not compiled")
        what = "Compiling the training program (once; it is kept)"
        with self._clock.phase("compile"), self._console.waiting(what):
            self._program.compile()

    def _go_on(self, state: TrainState, play: Play, *, trains: bool) -> int:
        """Trains, where that is left to do, and plays the games that the run is measured by; gives
        the exit code.
        """
        console, run, course = self._console, self._plan.run, self._course
        self._guard.expect("No place to write metrics to was opened")
        resumed_at = course.steps if self._plan.resumes else None
        sinks = _sinks(console, SinkContext(run, resumed_at, console.say))
        replays = Replays(run, self._program, play, console.warn, sinks.show_game)
        reporter = Reporter(
            self._program, course, self._clock, sinks, self._tracer, replays, console.warn,
            _confirm(self._plan, asks=run.bucket is None),  # whose mirror asks
        )  # fmt: skip
        self._clock.begin_training(course.seconds)
        console.begin(course.seconds)
        with reporter:
            state, is_stopped = self._train(state, reporter) if trains else (state, False)
            step = course.steps_after(int(state.learner.update))
            if is_stopped or not self._evaluate(state, replays):
                self._tell_that_it_stopped(state, step)
                code = RETRY
            else:
                console.end("Done", step, run.place)
                code = DONE
                self._ends_with(_AT_THE_END, self._code_of_pages)
            self._guard.expect("The places that metrics are written to were not closed")
        return code

    def _train(self, state: TrainState, reporter: Reporter) -> tuple[TrainState, bool]:
        """The state at the end, and whether the run ends with it for now: because it was asked to
        stop, or because the state could not be saved.
        """
        guard, keeper = self._guard, self._keeper
        with self._signals.noted(self._console.say):
            self._ends_with(_AS_SAVED)
            try:
                state = train(
                    state, self._course, self._program, guard, reporter, self._yardstick, keeper
                )
            except Broken as broken:
                keeper.close()
                raise Broken(f"{broken}; {keeper.what_is_kept()}") from None
            except BaseException:
                if jax.process_count() == 1:  # others may never get here, and would be waited for
                    keeper.close()
                raise
            keeper.close()
            course, update = self._course, int(state.learner.update)
            is_stopped = guard.was_asked_to_stop() or keeper.lacks(update)
            if not is_stopped and update < course.last_update:
                self._console.say(time_is_up(course.config, course.steps_after(update)))
        return state, is_stopped

    def _evaluate(self, state: TrainState, replays: Replays) -> bool:
        """Plays the games, unless there are none to play; whether it has. A signal ends it at once:
        what was trained is saved.
        """
        self._guard.expect("No game of the evaluation was played")
        self._ends_with(_WITHOUT_EVALUATION)
        if not self._yardstick.lacks_final_games(state):
            return True
        has_played = functools.partial(self._ends_with, _WITHOUT_A_PAGE, self._code_of_pages)
        try:
            self._yardstick.play_final_games(state, replays, has_played)
        except (Interrupted, KeyboardInterrupt):  # the latter from Python
            return False
        return True

    def _tell_what_is_not_taken(self, given: Mapping[str, Any]) -> None:
        """Of what was given, where nothing is left to train with it."""
        changes = on_first(lambda: directory.changes(self._plan.run))
        lost = [f"{each}={changes[each]}" for each in changes if each in given.keys() - FOR_GAMES]
        if lost:
            self._console.warn(
                "nothing is left to train, so the run keeps the settings that it was trained with: "
                f"{', '.join(lost)} {'is' if len(lost) == 1 else 'are'} not written down, and a "
                "later --resume goes by what it had"
            )

    def _tell_that_it_is_finished(self) -> None:
        run, course = self._plan.run, self._course
        limit = course.config.time_limit_minutes
        longer = [f"--resume={shlex.quote(str(run.place))}"]
        if course.update >= course.last_update:
            longer.append(f"--config.total_timesteps={2 * course.steps}")
        if limit is not None:
            longer.append(f"--config.time_limit_minutes={2 * limit:g}")
        self._console.say(
            f"The run is finished at step {course.steps:,}; its results are in {run.place}"
        )
        self._console.say(f"To train it longer: {' '.join(longer)}")

    def _ends_with(self, words: str, code: int = RETRY) -> None:
        """From now on a signal does so, at once."""
        self._signals.ends(words, code, self._leave)

    def _tell_that_it_stopped(self, state: TrainState, step: int) -> None:
        if self._keeper.lacks(int(state.learner.update)):
            self._console.say(
                "The last state could not be saved: what came after the checkpoint before is lost, "
                "and done again when the run is resumed"
            )
        elif (seconds := self._signals.seconds_since()) is not None:
            self._console.say(f"Saved and stopped {seconds:.1f} s after the signal")
        self._console.end("Stopped", step, self._plan.run.place, goes_on=True)


def _keeper(plan: Plan, program: Program, clock: Clock, console: Console, mirror: Mirror) -> Keeper:
    def before_saving() -> str | None:
        _confirm(plan)()
        return mirror.catch_up()

    return Keeper(plan.run, program, clock, console.say, before_saving)


def _confirm(plan: Plan, *, asks: bool = True) -> Callable[[], None]:
    return functools.partial(plan.lease.confirm, asks=asks) if plan.lease else lambda: None


def _restored(
    plan: Plan, keeper: Keeper, supervision: Supervision, console: Console
) -> tuple[TrainState, Course]:
    """The state to begin with, and where it stands."""
    supervision.watchdog.expect("No state to begin with was there", LONG)
    with console.waiting("Restoring the run" if plan.resumes else "Drawing the first boards"):
        state, course = keeper.restore()
    if plan.resumes and not course.update:
        console.say("The run has no checkpoint yet: it starts from its first update")
    check_span(plan.trace, course.last_update)
    supervision.note(str(plan.run.place), course.steps)
    return state, course


def _console(plan: Plan, program: Program) -> Console:
    """What this process prints to."""
    metrics = declared.metrics(program.env, program.algorithm)
    out = None if is_first() else open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    return Console(plan.config, metrics, out)


def _tell_what_runs(console: Console, plan: Plan, program: Program) -> None:
    platform, devices = jax.default_backend(), jax.device_count()
    console.head(
        f"{'Resuming' if plan.resumes else 'Training'} {plan.run.name}",
        [
            *summary(plan.config, platform, devices, program.parameters()),
            *differences(plan.config, resolve(reading.default(), platform, devices)),
        ],
    )


def _sinks(console: Console, context: SinkContext) -> Sinks:
    others = opened(context, console.warn) if is_first() else []
    return Sinks(console, *others, say=console.warn)
