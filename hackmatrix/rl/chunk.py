"""A chunk of updates: what the compiled program does between two looks at a run."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix import plugins
from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import OF_PLAY, Metric, Range, Section
from hackmatrix.errors import UserError
from hackmatrix.parallel.mesh import ENVS
from hackmatrix.rl import rollout, tally
from hackmatrix.rl.algorithm import Algorithm
from hackmatrix.rl.tally import Metrics
from hackmatrix.rl.train_state import NEVER, Report, TrainState

Array = jax.Array
SKIPPED = "train/skipped_updates"
_DIFFERS = (
    "what it gives is not the same on all devices: its gradients must come from "
    "hackmatrix.rl.gradients.mean_gradient and its metrics from jax.lax.pmean(..., axis); what is "
    "remembered of single boards belongs to their states (players.boards), which are split over "
    "the devices; if it is the same and JAX cannot see that, set `types_are_checked = False`"
)
SECTION = Section("How it learns", (Metric(SKIPPED, "updates that were skipped", digits=0),))
HEALTH = Range(
    SKIPPED,
    high=0,
    if_above="nothing is learned in updates that are not finite; lower --config.lr",
)


def run(
    env: Environment, algorithm: Algorithm, skips: bool, state: TrainState, updates: Array
) -> tuple[TrainState, Report]:
    """So many updates on each device, of its own part of the players. Where it `skips`, the learner
    stays as it was when an update is not finite.
    """

    # Traced once, for its shapes and for the loop.
    @functools.partial(jax.jit, inline=True)
    def update(state: TrainState, counted: tally.Tally) -> tuple[TrainState, tally.Tally, Metrics]:
        results = _updated(algorithm, state, counted)
        if not isinstance(results, tuple) or len(results) != 4:
            raise _misuse(algorithm, "it must give four: learner, players, counted, metrics")
        learner, players, counted, told = results
        if not isinstance(told, dict):
            raise _misuse(algorithm, "its metrics must be a dictionary, of a number by each tag")
        if taken := sorted(told.keys() & {*OF_PLAY, SKIPPED, *(each.tag for each in env.metrics)}):
            others = "which the trainer or the environment tells"
            raise _misuse(algorithm, f"it tells {', '.join(taken)}, {others}")
        told = jax.tree.map(lambda metric: jnp.asarray(metric, jnp.float32), told)
        if skips:
            learner, told = _if_sound(algorithm, state.learner, learner, told)
        return TrainState(learner, players), counted, told

    nothing = tally.empty(rollout.kind_of_step(env, state.players), env.episode_limit > 0)
    after, counted, told = jax.eval_shape(update, state, nothing)
    fault = _fault_of_metrics(algorithm, told) or _fault_of_trees(
        ("the learner", state.learner, after.learner),
        ("the players", state.players, after.players),
        ("what is counted", nothing, counted),
    )
    if fault:
        raise _misuse(algorithm, fault)
    sums = jax.tree.map(lambda metric: jnp.zeros(metric.shape, metric.dtype), told)

    def one(_: Array, carry: tuple) -> tuple:
        state, counted, sums, broken_at = carry
        state_after, played, told = update(state, nothing)
        breaks = ~_are_sound(algorithm, told) & (broken_at == NEVER)
        return (
            state_after,
            tally.together(counted, played),
            jax.tree.map(jnp.add, sums, told),
            jnp.where(breaks, state.learner.update, broken_at),
        )

    try:
        state, counted, sums, broken_at = jax.lax.fori_loop(
            0, updates, one, (state, nothing, sums, jnp.int32(NEVER))
        )
    except TypeError as error:
        if "varying" not in str(error):
            raise
        raise _misuse(algorithm, _DIFFERS) from error
    # What the last update has broken no later loss tells.
    spoilt = ~_is_finite(state.learner) & (broken_at == NEVER)
    broken_at = jnp.where(spoilt, state.learner.update - 1, broken_at)
    return state, Report({**_means(sums, updates), **tally.read(counted, ENVS)}, broken_at)


def _updated(algorithm: Algorithm, state: TrainState, counted: tally.Tally) -> Any:
    """What an update gives. Where one from outside of this package fails, in a line."""
    kind = type(algorithm)
    is_ours = kind.__module__.startswith(f"{plugins.__package__}.")
    told = plugins.told_in_a_line(f"{kind.__name__}.update: it fails")
    with nullcontext() if is_ours else told:
        return algorithm.update(state.learner, state.players, counted)


def _misuse(algorithm: Algorithm, fault: str) -> UserError:
    return UserError(f"{type(algorithm).__name__}.update: {fault}")


def _fault_of_metrics(algorithm: Algorithm, told: Metrics) -> str | None:
    if missing := [tag for tag in algorithm.vital if tag not in told]:
        return f"it does not tell {', '.join(missing)}, which `vital` names"
    for tag, metric in told.items():
        if jnp.shape(metric):
            return f"its metric {tag} is of the shape {[*jnp.shape(metric)]}, and not one number"
    return None


def _fault_of_trees(*trees: tuple[str, Any, Any]) -> str | None:
    """What an update changes that cannot be changed over and over: of trees by name, before and
    after it.
    """
    for name, before, after in trees:
        one, other = map(jax.tree.structure, (before, after))
        if str(one) != str(other):
            return f"after it {name} is another tree than before"
        pairs = zip(jax.tree.leaves_with_path(before), jax.tree.leaves(after), strict=True)
        for (path, old), new in pairs:
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                where = f"{name}{jax.tree_util.keystr(path)}"
                return (
                    f"{where} has {old.dtype}{[*old.shape]} before it and "
                    f"{new.dtype}{[*new.shape]} after it"
                )
    return None


def _are_sound(algorithm: Algorithm, told: Metrics) -> Array:
    return jnp.isfinite(sum(told[tag] for tag in algorithm.vital))


def _is_finite(learner: Any) -> Array:
    leaves = jax.tree.leaves(learner)
    numbers = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.stack([jnp.bool_(True), *(jnp.isfinite(leaf).all() for leaf in numbers)]).all()


def _if_sound(algorithm: Algorithm, before: Any, after: Any, told: Metrics) -> tuple[Any, Metrics]:
    """The learner after an update, and what that told. If any of it is not finite: the learner
    before it, but for the number of updates, and nothing told.
    """
    sound = _is_finite(after) & _are_sound(algorithm, told)
    kept = jax.tree.map(lambda new, old: jnp.where(sound, new, old), after, before)
    told = jax.tree.map(lambda metric: jnp.where(sound, metric, 0), told)
    return kept.replace(update=after.update), {**told, SKIPPED: (~sound).astype(jnp.float32)}


def _means(sums: Metrics, updates: Array) -> Metrics:
    """Over the updates that were not skipped, and how many were."""
    if SKIPPED not in sums:
        return jax.tree.map(lambda total: total / updates, sums)
    skipped = sums[SKIPPED]
    means = jax.tree.map(lambda total: total / (updates - skipped), sums)
    return {**means, SKIPPED: skipped}
