"""Finds, builds and checks algorithms by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import jax
import jax.numpy as jnp

from hackmatrix import plugins
from hackmatrix.envs.metrics import Range, Trend
from hackmatrix.envs.static_checks import are_sections, is_list
from hackmatrix.errors import UserError
from hackmatrix.networks.actor_critic import Network
from hackmatrix.rl.draws import seed_key
from hackmatrix.train.config import Config
from hackmatrix.train.config.rules import ALGORITHMS

_MEMBERS = "init", "update", "acting", "sections", "vital", "health"


def find(name: str) -> Any:
    """Returns the class of an algorithm (hackmatrix.rl.algorithm.Algorithm): a built-in one by its
    name, any other by MODULE:NAME.
    """
    kind = plugins.load(ALGORITHMS.get(name, name))
    try:
        inspect.signature(kind).bind("env", "network", "config", "axis")
    except TypeError as error:
        raise UserError(
            f"algorithm={name} cannot be built as NAME(env, network, config, axis): {error}"
        ) from None
    return kind


def built(name: str, kind: Any, *given: Any) -> Any:
    """Builds an algorithm for an environment, a network, a configuration and a mesh axis."""
    if not plugins.is_address(name):
        return kind(*given)
    with plugins.as_user_error(f"algorithm={name} fails when it is built"):
        return kind(*given)


def settings_of(name: str, kind: Any) -> set[str] | None:
    """Returns the settings that a built-in algorithm may read: the members of the protocol that
    annotates its `settings`. Returns None for any other algorithm, which may read all settings.
    """
    if name not in ALGORITHMS:
        return None
    protocol: type = get_type_hints(kind)["settings"]
    members = {*get_type_hints(protocol)}
    for each in protocol.__mro__:
        members |= {member for member, what in vars(each).items() if isinstance(what, property)}
    return members


def check(name: str, algorithm: Any, network: Network, config: Config) -> None:
    """Raises UserError if an algorithm breaks the protocol hackmatrix.rl.algorithm.Algorithm."""
    if lacks := [member for member in _MEMBERS if not hasattr(algorithm, member)]:
        raise UserError(
            f"algorithm={name} has no {', '.join(lacks)}; see hackmatrix.rl.algorithm.Algorithm"
        )
    for member in "vital", "inputs":
        if not is_list(getattr(algorithm, member, ()), str):
            raise UserError(f"algorithm={name}: its `{member}` must be a tuple of names")
    if not are_sections(algorithm.sections):
        raise UserError(
            f"algorithm={name}: its `sections` must be a tuple of Sections, each with a tuple of "
            "Metrics"
        )
    if not is_list(algorithm.health, Range | Trend):
        raise UserError(f"algorithm={name}: its `health` must be a tuple of Ranges and Trends")
    inputs = getattr(algorithm, "inputs", ())
    if strange := [each for each in inputs if not hasattr(config, each)]:
        raise UserError(
            f"algorithm={name}: its `inputs` must name settings, not {', '.join(strange)}"
        )
    if strange := [each for each in inputs if not _is_number(getattr(config, each))]:
        raise UserError(f"algorithm={name}: its `inputs` must be numbers, not {', '.join(strange)}")
    if plugins.is_address(name):
        is_changed = config.skip_nonfinite or config.starts_from_another
        _check_learner(name, algorithm, network, is_changed)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_learner(name: str, algorithm: Any, network: Network, is_changed: bool) -> None:
    """Checks the types of the first learner and of its parameters. If `is_changed`, the trainer
    changes learners, which then need `replace`.
    """
    key = seed_key(0)
    learner = _traced(name, "init", algorithm.init, key)
    update = getattr(learner, "update", None)
    if (
        (getattr(update, "shape", None), getattr(update, "dtype", None)) != ((), jnp.int32)
        or not hasattr(learner, "key")
        or (is_changed and not hasattr(learner, "replace"))
    ):
        raise UserError(
            f"algorithm={name}: its `init` must return a flax.struct.PyTreeNode with `key` and "
            f"`update`, an i32 scalar, not {type(learner).__name__}"
        )
    given = _traced(name, "acting", algorithm.acting, learner)
    wanted = jax.eval_shape(network.init, key)
    if _shapes(given) != _shapes(wanted):
        raise UserError(
            f"algorithm={name}: its `acting` must return the network's parameters, a tree like "
            "that of network.init"
        )


def _traced(name: str, member: str, function: Callable[..., Any], *given: Any) -> Any:
    """Returns the shapes and dtypes of what a function of a custom algorithm returns."""
    with plugins.as_user_error(f"algorithm={name}: its `{member}` fails"):
        return jax.eval_shape(function, *given)


def _shapes(tree: Any) -> list[Any]:
    return [(path, leaf.shape, leaf.dtype) for path, leaf in jax.tree.leaves_with_path(tree)]
