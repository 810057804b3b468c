"""Networks: a torso that turns an observation into features, and heads for policy and value.

This module lists the torsos; `make` is the only way to build a network. Importing it does not
import JAX, so that programs that play with NumPy alone can look up a forward pass here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from hackmatrix import plugins
from hackmatrix.errors import UserError
from hackmatrix.networks.turning import Turning

if TYPE_CHECKING:
    import numpy as np

    from hackmatrix.envs import Environment
    from hackmatrix.networks.actor_critic import Network

# A torso's forward pass in NumPy: from its parameters, as a file stores them (files.as_read), and
# the parts f32[B, *shape] of observations to features f32[B, F]. It also takes the arguments of the
# network's name, as keywords.
NumpyTorso = Callable[[Mapping[str, Any], Mapping[str, "np.ndarray"]], "np.ndarray"]


# Each names a module of this package and a function of `in_numpy`.
NETWORKS = "mlp", "centred", "conv", "cells"


# JSON may have a whole number as an int.
_TYPES: dict[str, set[type]] = {
    "str": {str}, "int": {int}, "bool": {bool}, "float": {float, int},
    "str | None": {str, type(None)}, "int | None": {int, type(None)},
}  # fmt: skip


@dataclass(frozen=True)
class Spec:
    """The settings that a network is built from. configs/default.py explains the fields, which have
    the names of the settings.
    """

    network: str
    hidden_dim: int
    num_layers: int
    channels: int
    separate_critic: bool
    compute_dtype: str
    turn_boards: bool = False

    def __post_init__(self) -> None:
        check_types(self)

    @classmethod
    def of(cls, settings: Any) -> Spec:
        """Reads the spec from the settings of a run, or copies another spec."""
        return cls(**{each.name: getattr(settings, each.name) for each in fields(cls)})


def check_types(made: Any) -> None:
    """Raises TypeError if a field of a dataclass is not of the type that it declares, if that is
    one of _TYPES. A file that was damaged or written by hand may have anything.
    """
    for each in fields(made):
        value, kinds = getattr(made, each.name), _TYPES.get(str(each.type))
        if kinds and type(value) not in kinds:
            raise TypeError(f"{each.name}={value!r} must be of type {each.type}")


def make(settings: Any, env: Environment) -> Network:
    """Builds the network for the observations and actions of an environment."""
    from hackmatrix.networks.actor_critic import Network
    from hackmatrix.networks.outside import check_shapes
    from hackmatrix.networks.torso import Torso

    spec = Spec.of(settings)
    torso = plugins.load(_torso(spec.network))
    if not (isinstance(torso, type) and issubclass(torso, Torso)):
        raise UserError(
            f"network={spec.network} is not a torso: it must be a subclass of "
            f"{Torso.__module__}.{Torso.__name__}"
        )
    with plugins.as_user_error(f"network={spec.network} cannot be built"):
        torso(spec, env.observation, **plugins.arguments(spec.network))
    with plugins.as_user_error(f"network={spec.network}: its `refuses` fails"):
        reason = torso.refuses(spec, env.observation)
    if reason:
        raise UserError(f"network={spec.network} does not support {env.name}: {reason}")
    turning = Turning.of(env.landmark, env.action_names) if spec.turn_boards else None
    if spec.turn_boards and not turning:
        raise UserError(
            f"turn_boards=True is not supported by {env.name}: boards can be turned only if it "
            "declares a landmark (Environment.landmark) and the actions up, down, left and right"
        )
    if turning and (taken := turning.shapes({}).keys() & env.observation.keys()):
        raise UserError(
            f"turn_boards=True is not supported by {env.name}: the part {taken.pop()}, which tells "
            "the network how a board was turned, already exists in its observation"
        )
    network = Network(spec, torso, dict(env.observation), env.num_actions, turning)
    if spec.network not in NETWORKS:
        check_shapes(network)
    return network


def numpy_address(network: str) -> str | None:
    """Returns MODULE:NAME of a network's `NumpyTorso`, or None if it has none. A torso from outside
    of this package is imported to read its attribute `in_numpy`.
    """
    if network in NETWORKS:
        return f"{__name__}.in_numpy:{network}"
    return getattr(plugins.load(network), "in_numpy", None)


def _torso(network: str) -> str:
    if network in NETWORKS:
        return f"{__name__}.{network}:{network.title()}"
    if plugins.is_address(network):
        return network
    raise UserError(
        f"there is no network {network!r}: choose one of {', '.join(NETWORKS)}, or MODULE:NAME"
    )
