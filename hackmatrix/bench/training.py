"""Training: how fast it is beside its network alone, and where the rest of the time goes."""

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
    """Rates in steps of the environment; seconds to compile; bytes on one device."""

    compile_seconds: float
    training: Rate
    network: Rate  # alone
    rollouts: Rate
    updates: Rate
    chunk_overhead: float  # of a call and a look at it, as a share of the time of its chunk
    compilations: int  # after the first chunk
    state_bytes: int
    temporary_bytes: int
    peak_bytes: int  # of the process, compiling included, and not the network alone


def measure_training(program: Program, steps: int, chunk: int, seconds: float) -> Training:
    """`steps` are those of an update, `chunk` the updates between two looks at a run."""
    start = time.perf_counter()
    with without_persistent_cache():
        program.compile()
    compile_seconds = time.perf_counter() - start
    state = program.first_state()

    def one_update(state: TrainState) -> TrainState:
        return program.run(state, 1)[0]

    config = program.config
    training = Work(one_update, state, steps)
    training.sample()
    peak_bytes = _peak_bytes()  # before there is the network's own data
    # On one device: others would do their shares at the same time, unless they share its cores.
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
        state, overhead = _chunk_overhead(program, training.value, chunk)
    rollouts, updates = _apart(program, state, steps, seconds)
    memory = program.compile().memory_analysis()
    assert memory is not None  # the compilers of CPUs, GPUs and TPUs all know
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


def _chunk_overhead(program: Program, state: TrainState, chunk: int) -> tuple[TrainState, float]:
    """What a call costs besides its updates: two calls of one update, with a look at each as the
    loop takes it, against one call of both, in an order that favours neither where the machine's
    speed drifts.
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
    return state, statistics.median(extra) / (chunk * statistics.median(alone))


class _Half(struct.PyTreeNode):
    """What one half of an update works on, over and over."""

    learner: Learner
    players: Players
    batch: Any


def _apart(program: Program, state: TrainState, steps: int, seconds: float) -> tuple[Rate, Rate]:
    """The rates of rollouts alone and of updates alone, from the same parts as the whole."""
    algorithm = program.algorithm
    assert isinstance(algorithm, ActorCritic)

    def roll(half: _Half) -> _Half:
        kind = rollout.step_spec(program.env, half.players)
        counted = tally.empty(kind, program.env.episode_limit > 0)
        players, batch, _ = algorithm.play(half.learner, half.players, counted)
        return half.replace(players=players, batch=batch.replace(last_value=None))

    def descend(half: _Half) -> _Half:
        batch: Batch = half.batch
        learner, _ = algorithm.learn(half.learner, half.players.number, batch, batch.reward)
        return half.replace(learner=learner)

    # Of a rollout only the time is divided, so that leaves carry it in front: not the boards.
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
    """A list that grows with each program that is compiled inside."""
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
    """On the device, where it says so; else of this process."""
    stats = jax.local_devices()[0].memory_stats() or {}
    peak: int | None = stats.get("peak_bytes_in_use")
    return peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
