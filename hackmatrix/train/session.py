"""A session of a run: from a configuration to a trained agent, its checkpoints and its curves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import jax

from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.agreement import anyone
from hackmatrix.train import evaluate, results, sameness
from hackmatrix.train.checkpoints import Checkpoints
from hackmatrix.train.clock import Clock
from hackmatrix.train.config import Config, differences, resolve, summary
from hackmatrix.train.console import Console
from hackmatrix.train.evaluate import Evaluation
from hackmatrix.train.guard import DONE, RETRY, Guard
from hackmatrix.train.health import Health
from hackmatrix.train.loop import train
from hackmatrix.train.opening import opened
from hackmatrix.train.program import Program, TrainState
from hackmatrix.train.progress import Broken
from hackmatrix.train.run import Run
from hackmatrix.train.sinks import JsonLines, Sink, Sinks, TensorBoard
from hackmatrix.train.watchdog import Watchdog
from hackmatrix.train.weights_and_biases import WeightsAndBiases

EVALUATION_SEED = 1_000_003


def begin(
    raw: Mapping[str, Any], overrides: Mapping[str, Any], default: Mapping[str, Any], workdir: Path
) -> int:
    """Trains as configured, in a new run or in the one to resume; gives the exit code."""
    clock = Clock()
    platform, devices = jax.default_backend(), jax.device_count()
    current, goes_on = opened(raw, overrides, workdir)
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
    console.say("Compiling the training program (up to a minute, kept for the next time) ...")
    with clock.phase("compile"):
        program.compile()
    console.say(f"Compiled in {clock.spent()['compile']:.0f} s")

    rewind_to = step if config.rewind else None
    files: list[Sink] = [
        JsonLines(current.metrics, rewind_to),
        TensorBoard(current.tensorboard, purge_step=None if step is None else step + 1),
        *([WeightsAndBiases(current, rewind_to)] if config.wandb else []),
    ]
    sinks = Sinks(console, *(files if is_first else []), say=console.warn)
    watchdog = Watchdog(60 * config.watchdog_minutes)
    health = Health(config.env)

    def tell(step: int, metrics: Mapping[str, float]) -> None:
        watchdog.progress()
        sinks.write(step, metrics)
        for warning in health.observe(step, metrics):
            console.warn(warning)

    with sinks, Guard(console.say) as guard:
        with watchdog:
            try:
                state = train(config, program, state, checkpoints, guard, clock, tell)
            except Broken as broken:
                raise Broken(f"{broken}; {_kept(checkpoints)}") from None
            finally:
                checkpoints.close()
        if anyone(guard.asked_to_stop):
            console.end(f"Stopped; --resume={current.name} goes on", current.directory)
            return RETRY
        _evaluate(config, program, state, current, console.say)
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
    config: Config, program: Program, state: TrainState, current: Run, say: Callable[[str], None]
) -> None:
    """Plays games with the agent and with a player that takes any valid action."""
    if not config.eval_episodes:
        return
    say(f"Playing {config.eval_episodes} games to see what it reached ...")
    evaluation = Evaluation(program.env, program.network, program.mesh)
    params = state.learner.params
    games = evaluate.beside_random(evaluation, params, EVALUATION_SEED, config.eval_episodes)
    summaries = {name: results.summary(played) for name, played in games.items()}
    for line in results.table(summaries):
        say(line)
    if jax.process_index() != 0:
        return
    told = {"episodes": config.eval_episodes, "seed": EVALUATION_SEED, **results.as_json(summaries)}
    text = json.dumps(told, indent=2)
    (current.directory / "evaluation.json").write_text(text + "\n")
