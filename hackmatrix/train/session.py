"""A session of a run: from a request to a trained agent, its checkpoints and its curves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import jax

from hackmatrix.parallel.agreement import is_first
from hackmatrix.train.config import resolve
from hackmatrix.train.config.summary import differences, summary
from hackmatrix.train.guards.guard import Guard
from hackmatrix.train.guards.signals import DONE, RETRY
from hackmatrix.train.keeper import Keeper
from hackmatrix.train.loop import train
from hackmatrix.train.plan import Plan, Request, agree
from hackmatrix.train.program import Program
from hackmatrix.train.reporting import declared
from hackmatrix.train.reporting.console import Console
from hackmatrix.train.reporting.progress import Broken
from hackmatrix.train.reporting.replays import Play, Replays
from hackmatrix.train.reporting.reporter import Reporter
from hackmatrix.train.reporting.sink_list import SINKS, SinkContext
from hackmatrix.train.reporting.sinks import Sinks
from hackmatrix.train.reporting.tracing import Tracer
from hackmatrix.train.reporting.yardstick import Yardstick
from hackmatrix.train.runs.clock import Clock


def run_session(request: Request, default: Mapping[str, Any], play: Play) -> int:
    """Trains as requested, in a new run or in the one to resume; gives the exit code. `default` are
    the settings with nothing given; `play` makes pages of games.
    """
    clock = Clock()
    plan, program = agree(request)
    console = _console(plan, program, default)
    keeper = Keeper(plan.run, program, clock, console.say)
    state, step = keeper.restore()
    if plan.resumes and step is None:
        step = 0
        console.say("The run has no checkpoint yet: it starts from its first update")
    console.say(
        "Compiling the training program (up to a minute; it is cached for later starts) ..."
    )
    with clock.phase("compile"):
        program.compile()
    console.say(f"Compiled in {clock.spent()['compile']:.0f} s")

    context = SinkContext(plan.run, step, plan.config.rewind, console.say)
    tracer = Tracer(plan.trace, plan.run.tensorboard, console.say)
    replays = Replays(plan.run, program, play, console.warn)
    yardstick = Yardstick(plan.run, program, clock, console.say)
    reporter = Reporter(program, clock, _sinks(console, context), tracer, replays, console.warn)
    with reporter, Guard(plan.config, program.mesh, console.say, tracer.ends) as guard:
        with guard.watchdog:
            try:
                state = train(state, program, guard, reporter, yardstick, keeper)
            except Broken as broken:
                raise Broken(f"{broken}; {_kept(keeper)}") from None
            finally:
                keeper.close()
        if guard.was_asked_to_stop():
            console.end(f"Stopped; go on with --resume={plan.run.name}", plan.run.directory)
            return RETRY
        yardstick.play_final_games(state, replays)
        console.end("Done", plan.run.directory)
    return DONE


def _console(plan: Plan, program: Program, default: Mapping[str, Any]) -> Console:
    """What this process prints to; it has said what will run."""
    metrics = declared.metrics(program.env, program.algorithm)
    out = None if is_first() else open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    console = Console(plan.config, metrics, out)
    platform, devices = jax.default_backend(), jax.device_count()
    console.head(
        f"{'Resuming' if plan.resumes else 'Training'} {plan.run.name}",
        [
            *summary(plan.config, platform, devices, program.parameters()),
            *differences(plan.config, resolve(default, platform, devices)),
        ],
    )
    return console


def _sinks(console: Console, context: SinkContext) -> Sinks:
    opened = [open_sink(context) for open_sink in SINKS] if is_first() else []
    return Sinks(console, *(sink for sink in opened if sink), say=console.warn)


def _kept(keeper: Keeper) -> str:
    steps = keeper.steps()
    return f"the checkpoint at step {steps[-1]:,} is good and kept" if steps else "none was saved"
