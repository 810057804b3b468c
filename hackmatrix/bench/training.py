"""Benchmark of training: its speed relative to its network, and where the other time goes."""

from __future__ import annotations

import dataclasses
import resource
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from flax import struct

from hackmatrix.bench import network
from hackmatrix.bench.timing import Rate, Work, in_turns
from hackmatrix.compile_cache.programs import without_persistent_cache
from hackmatrix.parallel.mesh import ENVS, REPLICATED, SPLIT
from hackmatrix.rl import rollout, tally
from hackmatrix.rl.learning.actor_critic import ActorCritic
from hackmatrix.rl.learning.learner import Learner
from hackmatrix.rl.rollout import Batch, Players
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.program import Program

_ROUNDS = 9
_COMPILATIONS = "/jax/core/compile/backend_compile_duration"


@dataclass(frozen=True)
class Training:
    """The results: rates in steps of the environment per second, sizes in bytes on one device."""

    compile_seconds: float
    training: Rate
    network: Rate  # alone, without the environment
    rollouts: Rate
    updates: Rate
    chunk_overhead: float  # of a call and fetching its report, as a share of its chunk's time
    compilations: int  # after the first chunk
    state_bytes: int
    temporary_bytes: int
    peak_bytes: int  # of training and its compilation, as `_peak_bytes` finds it


def measure_training(program: Program, seconds: float) -> Training:
    training, compile_seconds = updates_of(program)
    config, steps = program.config, training.steps
    training.sample()
    peak_bytes = _peak_bytes()  # before the network alone allocates its data
    # One device's share: others work at the same time, except simulated ones, which share cores.
    shares = 1 if jax.default_backend() == "cpu" else program.mesh.size
    share = network.work(
        program.network,
        config.num_envs // shares,
        config.num_steps,
        config.num_minibatches,
        config.update_epochs,
    )
    alone = dataclasses.replace(share, steps=steps)
    alone.sample()
    with _counted_compilations() as compilations:
        rates = in_turns(training, alone, seconds=seconds)
        state, overhead = _chunk_overhead(program, training.value)
    rollouts, updates = _measure_halves(program, state, steps, seconds)
    memory = program.compile().memory_analysis()
    assert memory is not None  # the compilers for CPUs, GPUs and TPUs all report it
    return Training(
        compile_seconds=compile_seconds,
        training=rates[0],
        network=rates[1],
        rollouts=rollouts,
        updates=updates,
        chunk_overhead=overhead,
        compilations=len(compilations),
        state_bytes=memory.argument_size_in_bytes,
        temporary_bytes=memory.temp_size_in_bytes,
        peak_bytes=peak_bytes,
    )


def updates_of(program: Program) -> tuple[Work[TrainState], float]:
    """Returns the updates of a program as work, and the seconds that it took to compile."""
    start = time.perf_counter()
    with without_persistent_cache():
        program.compile()
    compile_seconds = time.perf_counter() - start

    def one_update(state: TrainState) -> TrainState:
        return program.run(state, 1)[0]

    return Work(one_update, program.first_state(), program.config.batch_size), compile_seconds


def _chunk_overhead(program: Program, state: TrainState) -> tuple[TrainState, float]:
    """Returns the new state, and the overhead of a call as a share of the time of its chunk.

    Compares two calls of one update with one call of two updates; each report is fetched, as the
    training loop does. The order favours neither where the machine's speed drifts.
    """

    def seconds(*calls: int) -> float:
        nonlocal state
        start = time.perf_counter()
        for updates in calls:
            state, report = program.run(state, updates)
            jax.device_get(report)
        return time.perf_counter() - start

    extra, alone = [], []
    for _ in range(_ROUNDS):
        apart, together = seconds(1, 1), seconds(2)
        together += seconds(2)
        apart += seconds(1, 1)
        extra.append((apart - together) / 2)
        alone.append(together / 4)
    chunk = program.config.log_interval
    return state, statistics.median(extra) / (chunk * statistics.median(alone))


class _Half(struct.PyTreeNode):
    """The input and output of one half of an update, which is run over and over."""

    learner: Learner
    players: Players
    batch: Any


def _measure_halves(
    program: Program, state: TrainState, steps: int, seconds: float
) -> tuple[Rate, Rate]:
    """Measures rollouts alone and updates alone, with the functions that training uses."""
    algorithm = program.algorithm
    assert isinstance(algorithm, ActorCritic)

    def roll(half: _Half) -> _Half:
        kind = rollout.step_spec(program.env, half.players)
        counted = tally.empty(kind, program.env.cuts_off)
        players, batch, _ = algorithm.play(half.learner, half.players, counted)
        return half.replace(players=players, batch=batch.replace(last_value=None))

    def descend(half: _Half) -> _Half:
        batch: Batch = half.batch
        learner, _ = algorithm.learn(half.learner, half.players.number, batch, batch.reward)
        return half.replace(learner=learner)

    # The leaves of a batch are [T, E, ...], so they are split along their second axis.
    before = _Half(REPLICATED, SPLIT, None)  # type: ignore[arg-type]
    after = _Half(REPLICATED, SPLIT, jax.sharding.PartitionSpec(None, ENVS))  # type: ignore[arg-type]

    def compiled(function: Any, given: _Half) -> Any:
        mapped = jax.shard_map(
            function,
            mesh=program.mesh,
            in_specs=(given,),
            out_specs=after,
            check_vma=program.types_are_checked,
        )
        return jax.jit(mapped)

    full = compiled(roll, before)(_Half(state.learner, state.players, None))
    rollouts, updates = in_turns(
        Work(compiled(roll, after), full, steps),
        Work(compiled(descend, after), full, steps),
        seconds=seconds,
    )
    return rollouts, updates


@contextmanager
def _counted_compilations() -> Iterator[list[str]]:
    """Yields a list that gets an item for each compilation inside the block."""
    seen: list[str] = []

    def note(event: str, duration_secs: float, **_: str | int) -> None:
        if event == _COMPILATIONS:
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


def _peak_bytes() -> int:
    """Returns the peak memory of a device, or of this process where the device reports none."""
    stats = jax.local_devices()[0].memory_stats() or {}
    peak: int | None = stats.get("peak_bytes_in_use")
    return peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
