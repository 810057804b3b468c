"""What an update has to give: what an algorithm from outside may break, named in a line."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix import plugins
from hackmatrix.errors import UserError
from hackmatrix.rl.algorithm import Algorithm
from hackmatrix.rl.rollout import Players
from hackmatrix.rl.tally import Metrics, Tally
from hackmatrix.rl.train_state import TrainState

_DIFFERS = (
    "what it gives is not the same on all devices: its gradients must come from "
    "hackmatrix.rl.gradients.mean_gradient and its metrics from jax.lax.pmean(..., axis); what is "
    "remembered of single boards belongs to their states (players.boards), which are split over "
    "the devices; if it is the same and JAX cannot see that, set `types_are_checked = False`"
)


def updated(
    algorithm: Algorithm, state: TrainState, tally: Tally, told_by_others: Collection[str]
) -> tuple[Any, Players, Tally, Metrics]:
    """What an update gives, with metrics f32, none of which is one that others tell."""
    results = _results(algorithm, state, tally)
    if not isinstance(results, tuple) or len(results) != 4:
        raise _misuse(algorithm, "it must give four: learner, players, tally, metrics")
    learner, players, tally, metrics = results
    if not isinstance(metrics, dict):
        raise _misuse(algorithm, "its metrics must be a dictionary, of a number by each tag")
    if taken := sorted(metrics.keys() & told_by_others):
        others = "which the trainer or the environment tells"
        raise _misuse(algorithm, f"it tells {', '.join(taken)}, {others}")
    metrics = jax.tree.map(lambda metric: jnp.asarray(metric, jnp.float32), metrics)
    if missing := [tag for tag in algorithm.vital if tag not in metrics]:
        fault = f"it does not tell {', '.join(missing)}, which `vital` names"
        raise _misuse(algorithm, fault)
    for tag, metric in metrics.items():
        if shape := [*jnp.shape(metric)]:
            fault = f"its metric {tag} is of the shape {shape}, and not one number"
            raise _misuse(algorithm, fault)
    return learner, players, tally, metrics


def check_trees(algorithm: Algorithm, *trees: tuple[str, Any, Any]) -> None:
    """UserError at the first change of tree structure, shape or type, which a loop's carry may not
    have; of trees by name, before and after an update.
    """
    for name, before, after in trees:
        one, other = map(jax.tree.structure, (before, after))
        if str(one) != str(other):
            raise _misuse(algorithm, f"after it {name} is another tree than before")
        pairs = zip(jax.tree.leaves_with_path(before), jax.tree.leaves(after), strict=True)
        for (path, old), new in pairs:
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                where = f"{name}{jax.tree_util.keystr(path)}"
                fault = (
                    f"{where} has {old.dtype}{[*old.shape]} before it and "
                    f"{new.dtype}{[*new.shape]} after it"
                )
                raise _misuse(algorithm, fault)


@contextmanager
def same_on_all_devices(algorithm: Algorithm) -> Iterator[None]:
    """UserError if the types of a loop of updates tell that devices go different ways."""
    try:
        yield
    except TypeError as error:
        if "varying" not in str(error):
            raise
        raise _misuse(algorithm, _DIFFERS) from error


def _results(algorithm: Algorithm, state: TrainState, tally: Tally) -> Any:
    """What an update gives. Where one from outside of this package fails, in a line."""
    kind = type(algorithm)
    is_ours = kind.__module__.startswith(f"{plugins.__package__}.")
    in_a_line = plugins.as_user_error(f"{kind.__name__}.update: it fails")
    with nullcontext() if is_ours else in_a_line:
        return algorithm.update(state.learner, state.players, tally)


def _misuse(algorithm: Algorithm, fault: str) -> UserError:
    return UserError(f"{type(algorithm).__name__}.update: {fault}")
