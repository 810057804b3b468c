"""Checks of what `Algorithm.update` returns. An algorithm that fails one gets a one-line error."""

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
    "its results may differ among devices: its gradients must come from "
    "hackmatrix.rl.gradients.mean_gradient and its metrics from jax.lax.pmean(..., axis); state of "
    "single boards belongs in players.boards, which is sharded over the devices; if the results "
    "are the same and JAX cannot infer it, set `types_are_checked = False`"
)


def updated(
    algorithm: Algorithm, state: TrainState, tally: Tally, reserved: Collection[str]
) -> tuple[Any, Players, Tally, Metrics]:
    """Calls `update` and returns its results, with metrics cast to f32. Raises UserError if they
    are malformed, or if a metric's tag is in `reserved`.
    """
    results = _results(algorithm, state, tally)
    if not isinstance(results, tuple) or len(results) != 4:
        raise _misuse(algorithm, "it must return four values: learner, players, tally, metrics")
    learner, players, tally, metrics = results
    if not isinstance(metrics, dict) or not all(isinstance(tag, str) for tag in metrics):
        raise _misuse(algorithm, "its metrics must be a dictionary from tags to numbers")
    if taken := sorted(metrics.keys() & reserved):
        others = "which the trainer or the environment reports"
        raise _misuse(algorithm, f"its metrics must not include {', '.join(taken)}, {others}")
    metrics = {tag: _as_number(algorithm, tag, metric) for tag, metric in metrics.items()}
    if missing := [tag for tag in algorithm.vital if tag not in metrics]:
        fault = f"its metrics lack {', '.join(missing)}, which `vital` names"
        raise _misuse(algorithm, fault)
    for tag, metric in metrics.items():
        if shape := [*jnp.shape(metric)]:
            fault = f"its metric {tag} must be a scalar, but has shape {shape}"
            raise _misuse(algorithm, fault)
    return learner, players, tally, metrics


def check_trees(algorithm: Algorithm, *trees: tuple[str, Any, Any]) -> None:
    """Raises UserError if an update changes the structure, a shape or a dtype of a tree, as the
    trees are a loop's carry. Each is given as its name, and the tree before and after the update.
    """
    for name, before, after in trees:
        one, other = map(jax.tree.structure, (before, after))
        if str(one) != str(other):
            raise _misuse(algorithm, f"it changes the tree structure of the {name}")
        pairs = zip(jax.tree.leaves_with_path(before), jax.tree.leaves(after), strict=True)
        for (path, old), new in pairs:
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                was, now = (f"{leaf.dtype}{[*leaf.shape]}" for leaf in (old, new))
                where = f"{name}{jax.tree_util.keystr(path)}"
                raise _misuse(algorithm, f"it changes {where} from {was} to {now}")


@contextmanager
def same_on_all_devices(algorithm: Algorithm) -> Iterator[None]:
    """Turns `shard_map`'s type error, that a loop's carry begins to vary among devices, into a
    UserError.
    """
    try:
        yield
    except TypeError as error:
        if "varying" not in str(error):
            raise
        raise _misuse(algorithm, _DIFFERS) from error


def _results(algorithm: Algorithm, state: TrainState, tally: Tally) -> Any:
    """Calls `update`. An exception in an algorithm from outside this package is a UserError."""
    kind = type(algorithm)
    is_ours = kind.__module__.startswith(f"{plugins.__package__}.")
    in_a_line = plugins.as_user_error(f"{kind.__name__}.update: it fails")
    with nullcontext() if is_ours else in_a_line:
        return algorithm.update(state.learner, state.players, tally)


def _as_number(algorithm: Algorithm, tag: str, metric: Any) -> jax.Array:
    try:
        return jnp.asarray(metric, jnp.float32)
    except (TypeError, ValueError, OverflowError):
        kind = type(metric).__name__
        raise _misuse(algorithm, f"its metric {tag} must be a number, not {kind}") from None


def _misuse(algorithm: Algorithm, fault: str) -> UserError:
    return UserError(f"{type(algorithm).__name__}.update: {fault}")
