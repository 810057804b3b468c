"""Training: chunks of updates, with a look at the run in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hackmatrix.parallel.agreement import anyone
from hackmatrix.train import replicas
from hackmatrix.train.checkpoints import Checkpoints
from hackmatrix.train.clock import Clock
from hackmatrix.train.config import Config
from hackmatrix.train.guard import Guard
from hackmatrix.train.program import Program, TrainState
from hackmatrix.train.progress import Progress
from hackmatrix.train.replays import Replays
from hackmatrix.train.schedule import Schedule
from hackmatrix.train.tracing import Tracer


def train(
    config: Config,
    program: Program,
    state: TrainState,
    checkpoints: Checkpoints,
    guard: Guard,
    clock: Clock,
    tell: Callable[[int, Mapping[str, float]], None],
    tracer: Tracer,
    replays: Replays,
) -> TrainState:
    """Trains until all updates are done, the time is over or the guard is asked to stop; the state
    is saved then, and from time to time before. All processes stop and save at the same update.
    """
    update = int(state.learner.update)
    schedule = Schedule(config, clock, update, tracer.ends)
    progress = Progress(config, program.mesh.size, clock, tell)

    def save() -> None:
        progress.flush()  # a broken chunk must not be saved
        with clock.phase("save"):
            checkpoints.save(update * config.batch_size, state, {"update": update})
        schedule.saved(update)

    while updates := schedule.next_chunk(update):
        tracer.reached(update, state)
        state, report = program.run(state, updates)
        update += updates
        progress.add(update, updates, report)
        if anyone(guard.asked_to_stop or schedule.is_time_up()):
            break
        if schedule.is_replica_check_due(update, updates):
            replicas.check(state.learner.params, program.mesh)
        if anyone(schedule.is_saving_due(update)):
            save()
            replays.begin(update * config.batch_size, state.learner)
    tracer.finish(state)
    if schedule.is_unsaved(update):
        save()
    progress.flush()
    checkpoints.wait()
    return state
