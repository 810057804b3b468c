"""A session of a run: from a request to a trained agent, its checkpoints and its curves."""

from __future__ import annotations

import functools
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from hackmatrix.exit_codes import DONE, RETRY
from hackmatrix.parallel.agreement import is_first, on_first
from hackmatrix.parallel.failures import out_of_memory_as_user_error
from hackmatrix.rl.evaluation import Interrupted
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.checkpointer import Checkpointer
from hackmatrix.train.config import reading, resolve
from hackmatrix.train.config.summary import differences, summary, time_is_up, too_large
from hackmatrix.train.ending import Ending, Phase
from hackmatrix.train.guards.guard import Guard
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.guards.watchdog import LONG
from hackmatrix.train.loop import train
from hackmatrix.train.plan import Plan, Request, agree
from hackmatrix.train.program import Program
from hackmatrix.train.reporting import metric_catalogue
from hackmatrix.train.reporting.console import Console
from hackmatrix.train.reporting.evaluator import Evaluator
from hackmatrix.train.reporting.progress import Broken
from hackmatrix.train.reporting.replays import Play, Replays
from hackmatrix.train.reporting.reporter import Reporter
from hackmatrix.train.reporting.sink_list import SinkContext, Sinks, opened
from hackmatrix.train.reporting.sinks import Sink, load_ahead
from hackmatrix.train.reporting.tracing import Tracer, check_span
from hackmatrix.train.runs import directory
from hackmatrix.train.runs.clock import Clock
from hackmatrix.train.runs.lease import Lease
from hackmatrix.train.runs.provenance import changed_modules, edited_modules

FOR_GAMES = {"eval_episodes", "resume", "run_name"}  # settings that a session without training uses


def run_session(
    request: Request,
    play: Play,
    supervision: Supervision | None = None,
    *,
    listeners: Sequence[Sink] = (),
    is_last: bool = True,
) -> int:
    """Trains as requested, in a new run or in the one to resume; returns the exit code. `play`
    records games for pages; `listeners` are more sinks of metrics. After a signal while only such a
    page is missing the code is DONE if the session `is_last` in the program, else RETRY, as more
    follows. It is RETRY, too, if a file did not reach the run's bucket.
    """
    clock, supervision = Clock(), supervision or Supervision()
    with Ending(supervision, is_last=is_last) as ending:
        plan, program = agree(request, ending.hold)
        supervision.note(str(plan.run.place))
        with out_of_memory_as_user_error(too_large(plan.config)):
            console = _console(plan, program, clock)
            mirror = ending.mirrored(plan, console.say)
            program.prefetch()
            _tell_what_runs(console, plan, program)
            checkpointer = Checkpointer(plan.run, program, clock, console.say, mirror.catch_up)
            state = _restored(plan, checkpointer, supervision, console)
            session = _Session(plan, program, console, checkpointer, supervision, ending, listeners)
            code = session.run(state, play, request.given)
        return ending.finish(code)


@dataclass
class _Session:
    """What the phases of a session share."""

    plan: Plan
    program: Program
    console: Console
    checkpointer: Checkpointer
    supervision: Supervision
    ending: Ending
    listeners: Sequence[Sink]

    def __post_init__(self) -> None:
        run, program, say = self.plan.run, self.program, self.console.say
        self.schedule = self.checkpointer.schedule
        self.tracer = Tracer(self.plan.trace, run, say)
        self.guard = Guard(self.schedule, program.mesh, self.supervision, self.tracer.ends)
        self.evaluator = Evaluator(run, program, self.schedule, say, self.guard.report_progress)

    def run(self, state: TrainState, play: Play, given: Mapping[str, Any]) -> int:
        """Trains and evaluates what is left; returns the exit code."""
        trains = not self.schedule.is_over
        if trains:
            self._begin()
        else:
            unused = self._warn_of_unused_settings(given)
            if not self.evaluator.lacks_final_games(state):
                self._tell_how_to_train_longer(unused)
                return DONE
        return self._go_on(state, play, trains=trains)

    def _begin(self) -> None:
        """Prepares training: saves the settings of a resumed run, and compiles the program."""
        if self.plan.resumes:
            run = self.plan.run
            self._tell_what_changes()
            on_first(functools.partial(directory.write_down, run))
            changed = on_first(lambda: changed_modules(directory.starts(run)[:-1], run.config))
            if changed:
                self.console.warn(f"{', '.join(changed)}: changed since this run's last start")
            self.evaluator.forget_what_is_done_again()
        if edited := edited_modules(self.plan.run.config):
            self.console.warn(
                f"{', '.join(edited)}: edited since its import, which is what trains: call "
                "importlib.reload, or restart Python"
            )
        if is_first():  # only this process writes metrics
            load_ahead()
        self.guard.arm("The training program was not compiled")
        what = "Compiling the training program (once; then it is cached)"
        with self.schedule.clock.phase("compile"), self.console.waiting(what):
            self.program.compile()

    def _go_on(self, state: TrainState, play: Play, *, trains: bool) -> int:
        """Trains, if that is left to do, and plays the games of the final evaluation; returns the
        exit code.
        """
        console, run, schedule = self.console, self.plan.run, self.schedule
        self.guard.arm("The metric sinks were not opened")
        resumed_at = schedule.steps if self.plan.resumes else None
        context = SinkContext(run, resumed_at, console.say)
        sinks = _sinks(console, context, self.plan.lease, self.listeners)
        replays = Replays(run, self.program, play, console.warn, sinks.show_game)
        reporter = Reporter(self.program, schedule, sinks, self.tracer, replays, console.warn)
        schedule.clock.begin_training(schedule.seconds)
        with reporter:
            state, is_stopped = self._train(state, reporter) if trains else (state, False)
            step = schedule.steps_after(int(state.learner.update))
            if is_stopped or not self._evaluate(state, replays):
                self._tell_that_it_stopped(state, step)
                code = RETRY
            else:
                console.end("Done", step, run.place)
                code = DONE
                self.ending.enters(Phase.FINISHING)
            self.guard.arm("The metric sinks were not closed")
        return code

    def _train(self, state: TrainState, reporter: Reporter) -> tuple[TrainState, bool]:
        """Returns the last state, and whether the run stops there for now: because it was asked to,
        or because the state could not be saved.
        """
        guard, checkpointer = self.guard, self.checkpointer
        with self.supervision.signals.noted(self.console.say):
            self.ending.enters(Phase.TRAINING)
            try:
                state = train(state, self.program, guard, reporter, self.evaluator, checkpointer)
            except Broken as broken:
                checkpointer.close()
                raise Broken(f"{broken}; {checkpointer.describe_newest()}") from None
            except BaseException:
                if jax.process_count() == 1:  # close() would wait for others that may not get here
                    checkpointer.close()
                raise
            schedule, update = self.schedule, int(state.learner.update)
            is_stopped = guard.was_asked_to_stop() or checkpointer.is_unsaved(update)
            if not is_stopped and update < schedule.last_update:
                self.console.say(time_is_up(schedule.config, schedule.steps_after(update)))
        return state, is_stopped

    def _evaluate(self, state: TrainState, replays: Replays) -> bool:
        """Plays the games of the final evaluation, if they are missing; returns False if it was
        interrupted. A signal ends it at once, as the trained state is saved.
        """
        self.guard.arm("No game of the evaluation was played")
        self.ending.enters(Phase.EVALUATION)
        if not self.evaluator.lacks_final_games(state):
            return True
        has_played = functools.partial(self.ending.enters, Phase.PAGES)
        try:
            self.evaluator.play_final_games(state, replays, has_played)
        except (Interrupted, KeyboardInterrupt):  # the latter when called from Python
            return False
        return True

    def _tell_what_changes(self) -> None:
        """Says which settings differ from those that the run had so far: a configuration file may
        have changed meanwhile.
        """
        config = self.plan.config

        def changes() -> list[str]:
            before = replace(directory.saved(self.plan.run), resume=config.resume)
            return differences(config, before, "so far")

        if told := on_first(changes):
            self.console.say(f"From now on {', '.join(told)}")

    def _warn_of_unused_settings(self, given: Mapping[str, Any]) -> list[str]:
        """Warns of given settings without an effect, as nothing is left to train; returns them."""
        saved = on_first(lambda: directory.saved(self.plan.run).settings())
        now = self.plan.config.settings()
        changes = [each for each in now if now[each] != saved[each]]
        unused = [each for each in changes if each in given.keys() - FOR_GAMES]
        if unused:
            lost = ", ".join(f"{each}={now[each]}" for each in unused)
            self.console.warn(
                f"nothing is left to train, so {lost} will neither have an effect nor "
                "be saved: the run keeps the settings that it was trained with"
            )
        return unused

    def _tell_how_to_train_longer(self, unused: list[str]) -> None:
        run, schedule = self.plan.run, self.schedule
        config, trained = schedule.config, schedule.seconds / 60
        longer = [f"--resume={shlex.quote(str(run.place))}"]
        if schedule.update >= schedule.last_update or "total_timesteps" in unused:
            steps = max(config.total_timesteps, 2 * schedule.steps)
            longer.append(f"--config.total_timesteps={steps}")
        if (limit := config.time_limit_minutes) is not None:
            minutes = 2 * limit if 2 * limit > trained else math.ceil(2 * trained)
            longer.append(f"--config.time_limit_minutes={minutes:g}")
        self.console.say(
            f"The run has finished at step {schedule.steps:,}; its results are in {run.place}"
        )
        self.console.say(f"To train it longer: {' '.join(longer)}")

    def _tell_that_it_stopped(self, state: TrainState, step: int) -> None:
        if self.checkpointer.is_unsaved(int(state.learner.update)):
            self.console.say(
                "The last state could not be saved: updates since the last checkpoint are lost, "
                "and are repeated on resume"
            )
        elif (seconds := self.supervision.signals.seconds_since()) is not None:
            self.console.say(f"Saved and stopped {seconds:.1f} s after the signal")
        self.console.end("Stopped", step, self.plan.run.place, goes_on=True)


def _restored(
    plan: Plan, checkpointer: Checkpointer, supervision: Supervision, console: Console
) -> TrainState:
    """Returns the state that the session starts from."""
    supervision.watchdog.arm("The state to start from was not ready", LONG)
    with console.waiting("Restoring the run" if plan.resumes else "Starting the first games"):
        # A state that does not fit in memory raises here. On a CPU a program given it would hang.
        state = jax.block_until_ready(checkpointer.restore())
    schedule = checkpointer.schedule
    if plan.resumes and not schedule.update:
        console.say("The run has no checkpoint yet: it starts from its first update")
    check_span(plan.trace, schedule.last_update)
    if plan.trace and plan.trace.first <= schedule.update:  # no error: supervise repeats the flag
        console.warn(
            f"no trace will be recorded: update {plan.trace.first:,}, which --profile asks for "
            "first, was run before this start"
        )
    supervision.note(str(plan.run.place), schedule.steps)
    return state


def _console(plan: Plan, program: Program, clock: Clock) -> Console:
    """Returns the console of this process; only that of the first prints anything."""
    metrics = metric_catalogue.metrics(program.env, program.algorithm)
    out = None if is_first() else open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    return Console(plan.config, metrics, out, clock)


def _tell_what_runs(console: Console, plan: Plan, program: Program) -> None:
    platform, devices = jax.default_backend(), jax.device_count()
    console.head(
        f"{'Resuming' if plan.resumes else 'Training'} {plan.run.name}",
        [
            *summary(plan.config, platform, devices, program.num_parameters()),
            *differences(plan.config, resolve(reading.default(), platform, devices)),
        ],
    )


def _sinks(
    console: Console, context: SinkContext, lease: Lease | None, listeners: Sequence[Sink]
) -> Sinks:
    """Returns the sinks of metrics, which are written while this process owns the run."""
    others = [*opened(context, console.warn), *listeners] if is_first() else []

    def confirm() -> None:
        if lease:
            lease.confirm(renew_if_stale=context.run.bucket is None)  # else the mirror does

    return Sinks(console, *others, say=console.warn, confirm=confirm)
