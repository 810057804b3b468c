"""Algorithms by name."""

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
    """The class of an algorithm (hackmatrix.rl.algorithm.Algorithm): one of ours by its name, any
    other by MODULE:NAME.
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
    """The algorithm for an environment, a network, a configuration and an axis."""
    if not plugins.is_address(name):
        return kind(*given)
    with plugins.as_user_error(f"algorithm={name} fails when it is built"):
        return kind(*given)


def settings_of(name: str, kind: Any) -> set[str] | None:
    """The settings that an algorithm of ours may read: the members of the protocol that its
    `settings` are of. None for any other, which may read what it likes.
    """
    if name not in ALGORITHMS:
        return None
    protocol: type = get_type_hints(kind)["settings"]
    members = {*get_type_hints(protocol)}
    for each in protocol.__mro__:
        members |= {member for member, what in vars(each).items() if isinstance(what, property)}
    return members


def check(name: str, algorithm: Any, network: Network, config: Config) -> None:
    """Raises UserError if it lacks what is asked of an algorithm."""
    if lacks := [member for member in _MEMBERS if not hasattr(algorithm, member)]:
        raise UserError(
            f"algorithm={name} has no {', '.join(lacks)}: hackmatrix.rl.algorithm.Algorithm says "
            "what they are"
        )
    for member in "vital", "inputs":
        if not is_list(getattr(algorithm, member, ()), str):
            raise UserError(f'algorithm={name}: its `{member}` must be names, such as ("...",)')
    if not are_sections(algorithm.sections):
        raise UserError(
            f"algorithm={name}: its `sections` must be a tuple of Sections, each with a tuple of "
            "Metrics"
        )
    if not is_list(algorithm.health, Range | Trend):
        raise UserError(f"algorithm={name}: its `health` must be a tuple of Ranges and Trends")
    inputs = getattr(algorithm, "inputs", ())
    if strange := [each for each in inputs if not hasattr(config, each)]:
        raise UserError(f"algorithm={name}: its `inputs` name no settings: {', '.join(strange)}")
    if strange := [each for each in inputs if not _is_number(getattr(config, each))]:
        raise UserError(f"algorithm={name}: its `inputs` must be numbers: {', '.join(strange)}")
    if plugins.is_address(name):
        is_changed = config.skip_nonfinite or config.starts_from_another
        _check_learner(name, algorithm, network, is_changed)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_learner(name: str, algorithm: Any, network: Network, is_changed: bool) -> None:
    """Of the first learner, parts of which the trainer may change."""
    key = seed_key(0)
    learner = _traced(name, "init", algorithm.init, key)
    update = getattr(learner, "update", None)
    if (
        (getattr(update, "shape", None), getattr(update, "dtype", None)) != ((), jnp.int32)
        or not hasattr(learner, "key")
        or (is_changed and not hasattr(learner, "replace"))
    ):
        raise UserError(
            f"algorithm={name}: its `init` must give a flax.struct.PyTreeNode with `update`, an "
            f"i32, and `key`, and gives {type(learner).__name__}"
        )
    given = _traced(name, "acting", algorithm.acting, learner)
    wanted = jax.eval_shape(network.init, key)
    if _shapes(given) != _shapes(wanted):
        raise UserError(
            f"algorithm={name}: what its `acting` gives of a learner is not the network's "
            "parameters, a tree as of network.init"
        )


def _traced(name: str, member: str, function: Callable[..., Any], *given: Any) -> Any:
    """What a function of an algorithm from outside gives, as shapes and types."""
    with plugins.as_user_error(f"algorithm={name}: its `{member}` fails"):
        return jax.eval_shape(function, *given)


def _shapes(tree: Any) -> list[Any]:
    return [(path, leaf.shape, leaf.dtype) for path, leaf in jax.tree.leaves_with_path(tree)]
