"""A chunk of updates: what the compiled program runs between two returns to Python."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import OF_LINES, OF_PLAY, Metric, Range, Section
from hackmatrix.parallel.mesh import ENVS
from hackmatrix.rl import promises, rollout
from hackmatrix.rl import tally as tallies
from hackmatrix.rl.algorithm import Algorithm
from hackmatrix.rl.tally import Metrics, Tally
from hackmatrix.rl.train_state import NEVER, Report, TrainState

Array = jax.Array
SKIPPED = "train/skipped_updates"
_SKIPPED = Metric(SKIPPED, "updates that were skipped", column="skipped", digits=0, is_highest=True)
SECTION = Section("How it learns", (_SKIPPED,))
HEALTH = Range(
    SKIPPED,
    high=0,
    if_above="updates that are not finite are skipped; lower --config.lr",
)


def run(
    env: Environment, algorithm: Algorithm, skips: bool, state: TrainState, updates: Array
) -> tuple[TrainState, Report]:
    """Runs `updates` updates, on each device with its own shard of the players. With `skips`, an
    update that is not finite leaves the learner as it was, except for its count `update`.
    """
    nothing = tallies.empty(rollout.step_spec(env, state.players), env.cuts_off)
    of_env = {tag for tags in nothing.names for tag in tags}  # also those that it does not declare
    reserved = {*OF_PLAY, *OF_LINES, SKIPPED, *of_env, *(each.tag for each in env.metrics)}

    # A jit, so that eval_shape and the loop share one trace.
    @functools.partial(jax.jit, inline=True)
    def update(state: TrainState, tally: Tally) -> tuple[TrainState, Tally, Metrics]:
        learner, players, tally, metrics = promises.updated(algorithm, state, tally, reserved)
        if skips:
            learner, metrics = _if_sound(algorithm, state.learner, learner, metrics)
        return TrainState(learner, players), tally, metrics

    after, tally, metrics = jax.eval_shape(update, state, nothing)
    promises.check_trees(
        algorithm,
        ("learner", state.learner, after.learner),
        ("players", state.players, after.players),
        ("tally", nothing, tally),
    )
    sums = jax.tree.map(lambda metric: jnp.zeros(metric.shape, metric.dtype), metrics)

    def one(_: Array, carry: tuple) -> tuple:
        state, tally, sums, broken_at = carry
        state_after, played, metrics = update(state, nothing)
        breaks = ~_are_sound(algorithm, metrics) & (broken_at == NEVER)
        return (
            state_after,
            tallies.merge(tally, played),
            jax.tree.map(jnp.add, sums, metrics),
            jnp.where(breaks, state.learner.update, broken_at),
        )

    with promises.same_on_all_devices(algorithm):
        state, tally, sums, broken_at = jax.lax.fori_loop(
            0, updates, one, (state, nothing, sums, jnp.int32(NEVER))
        )
    # NaNs in the learner show in the losses of the next update. After the last update there are
    # none, so check the learner itself.
    spoilt = ~_is_finite(state.learner) & (broken_at == NEVER)
    broken_at = jnp.where(spoilt, state.learner.update - 1, broken_at)
    return state, Report.of({**_means(sums, updates), **tallies.read(tally, ENVS)}, broken_at)


def _are_sound(algorithm: Algorithm, metrics: Metrics) -> Array:
    return jnp.isfinite(sum(metrics[tag] for tag in algorithm.vital))


def _is_finite(learner: Any) -> Array:
    finite: dict[tuple[int, ...], Array] = {}  # of a shape: one reduction for all of its leaves
    for leaf in jax.tree.leaves(learner):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            finite[leaf.shape] = finite.get(leaf.shape, True) & jnp.isfinite(leaf)
    return jnp.stack([jnp.bool_(True), *(flags.all() for flags in finite.values())]).all()


def _if_sound(
    algorithm: Algorithm, before: Any, after: Any, metrics: Metrics
) -> tuple[Any, Metrics]:
    """Returns the learner and metrics after an update. If the new learner or a vital metric is not
    finite, returns the old learner with `update` advanced, and metrics of 0.
    """
    sound = _is_finite(after) & _are_sound(algorithm, metrics)
    kept = jax.tree.map(lambda new, old: jnp.where(sound, new, old), after, before)
    metrics = jax.tree.map(lambda metric: jnp.where(sound, metric, 0), metrics)
    return kept.replace(update=after.update), {**metrics, SKIPPED: (~sound).astype(jnp.float32)}


def _means(sums: Metrics, updates: Array) -> Metrics:
    """Returns the means over the updates that were not skipped, and the number that were."""
    if SKIPPED not in sums:
        return jax.tree.map(lambda total: total / updates, sums)
    skipped = sums[SKIPPED]
    means = jax.tree.map(lambda total: total / (updates - skipped), sums)
    return {**means, SKIPPED: skipped}
