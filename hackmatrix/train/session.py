"""A session of a run: from a configuration to a trained agent, its checkpoints and its curves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import jax

from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.agreement import anyone, first
from hackmatrix.ppo.tally import RETURN
from hackmatrix.train import evaluate, results, sameness, whole_files
from hackmatrix.train.checkpoints import Checkpoints
from hackmatrix.train.clock import Clock
from hackmatrix.train.config import Config, differences, resolve, summary
from hackmatrix.train.console import Console
from hackmatrix.train.evaluate import EVALUATION_SEED, Evaluation
from hackmatrix.train.guard import DONE, RETRY, Guard
from hackmatrix.train.health import Health
from hackmatrix.train.loop import train
from hackmatrix.train.opening import opened
from hackmatrix.train.program import Program, TrainState
from hackmatrix.train.progress import Broken
from hackmatrix.train.replays import Play, Replays
from hackmatrix.train.run import Run
from hackmatrix.train.sinks import JsonLines, Sink, Sinks, TensorBoard
from hackmatrix.train.tracing import Tracer, span
from hackmatrix.train.watchdog import Watchdog
from hackmatrix.train.weights_and_biases import WeightsAndBiases


def begin(
    raw: Mapping[str, Any],
    overrides: Mapping[str, Any],
    default: Mapping[str, Any],
    workdir: Path,
    play: Play,
    profile: str | None,
) -> int:
    """Trains as configured, in a new run or in the one to resume; gives the exit code. Of the
    updates that `profile` names, START:COUNT, a trace is made; `play` makes pages of games.
    """
    clock = Clock()
    platform, devices = jax.default_backend(), jax.device_count()
    # The first process decides: chunks end where the trace does, and have to be the same for all.
    traced = span(profile) if (profile := first(profile)) else None
    current, goes_on = opened(raw, overrides, workdir, traced)
    config, is_first = current.config, jax.process_index() == 0
    program = Program(config, meshes.over())

    console = Console(config, out=None if is_first else _nobody())
    console.head(
        f"{'Resuming' if goes_on else 'Training'} {current.name}",
        [
            *summary(config, platform, devices, program.parameters()),
            *differences(config, resolve(default, platform, devices)),
        ],
    )
    sameness.compare_programs(program)
    checkpoints = Checkpoints(current.checkpoints, keep=config.keep_checkpoints, say=console.say)
    state, step = _state(program, checkpoints, console.say)
    if goes_on and step is None:
        step = 0
        console.say("Nothing of it has been saved yet: it begins anew")
    console.say("Compiling the training program (up to a minute, kept for the next time) ...")
    with clock.phase("compile"):
        program.compile()
    console.say(f"Compiled in {clock.spent()['compile']:.0f} s")

    rewind_to = step if config.rewind else None
    files: list[Sink] = [
        JsonLines(current.metrics, rewind_to),
        TensorBoard(current.tensorboard, purge_step=None if step is None else step + 1),
        *([WeightsAndBiases(current, rewind_to, say=console.say)] if config.wandb else []),
    ]
    sinks = Sinks(console, *(files if is_first else []), say=console.warn)
    watchdog = Watchdog(60 * config.watchdog_minutes)
    health = Health(config.env, config.anneal_lr)
    tracer = Tracer(traced, current.tensorboard, console.say)
    replays = Replays(current, program, play, console.warn)

    def tell(step: int, metrics: Mapping[str, float]) -> None:
        watchdog.progress()
        sinks.write(step, metrics)
        for warning in health.observe(step, metrics):
            console.warn(warning)

    with sinks, Guard(console.say) as guard:
        with watchdog:
            try:
                state = train(
                    config, program, state, checkpoints, guard, clock, tell, tracer, replays
                )
            except Broken as broken:
                raise Broken(f"{broken}; {_kept(checkpoints)}") from None
            finally:
                checkpoints.close()
        if anyone(guard.asked_to_stop):
            console.end(f"Stopped; --resume={current.name} goes on", current.directory)
            return RETRY
        _evaluate(config, program, state, current, replays, console.say)
        console.end("Done", current.directory)
    return DONE


def _kept(checkpoints: Checkpoints) -> str:
    steps = checkpoints.steps()
    return f"the checkpoint at step {steps[-1]:,} is good and kept" if steps else "none was saved"


def _nobody() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _state(
    program: Program, checkpoints: Checkpoints, say: Callable[[str], None]
) -> tuple[TrainState, int | None]:
    """The state to go on from, and the environment step it was saved at, if it was."""
    shapes = program.shapes()
    restored = checkpoints.restore_newest(shapes, accept=shapes.replace(players=None))
    if restored is None:
        return program.first_state(), None
    state: Any = restored.state
    if state.players is None:
        update = restored.step // program.batch_size
        fresh = program.first_state()
        learner = state.learner.replace(update=fresh.learner.update + update)
        say(
            "Another number of environments than before: they all begin new games, and the "
            "optimiser's averages are from another batch"
        )
        state = TrainState(learner=learner, players=fresh.players)
    say(f"Going on from the checkpoint at step {restored.step:,}")
    return state, restored.step


def _evaluate(
    config: Config,
    program: Program,
    state: TrainState,
    current: Run,
    replays: Replays,
    say: Callable[[str], None],
) -> None:
    """Plays games with the agent and with a player that takes any valid action."""
    games = config.eval_episodes
    if not games:
        return
    say(f"Playing {games} games to see what it reached ...")
    learner = state.learner
    step = int(learner.update) * config.batch_size
    replays.prepare(step, learner)
    evaluation = Evaluation(program.env, program.network, program.mesh)
    played = evaluate.beside_random(evaluation, learner.params, EVALUATION_SEED, games)
    summaries = {name: results.summary(columns) for name, columns in played.items()}
    for line in results.table(summaries):
        say(line)
    if jax.process_index() != 0:
        return
    best = results.best_game(played["agent"])
    told = {"step": step, "episodes": games, "seed": EVALUATION_SEED, "best_game": best}
    text = json.dumps({**told, **results.as_json(summaries)}, indent=2)
    whole_files.write(current.evaluation, text + "\n")
    again = replays.best(step, learner, best, float(played["agent"][RETURN][best]))
    if again:
        say(again)
