"""Networks: a torso that turns an observation into features, and heads for policy and value.

The torsos are named here, and `make` is the only way to build a network. Nothing in this module
needs JAX, so that a program that plays with NumPy alone can look up a forward pass here.
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

# The features f32[..., F] of an observation in parts f32[..., *shape], with a torso's parameters as
# a file has them (files.as_read).
NumpyTorso = Callable[[Mapping[str, Any], Mapping[str, "np.ndarray"]], "np.ndarray"]


# Each a module of this package and a function of `in_numpy`.
NETWORKS = "mlp", "centred", "conv", "cells"


@dataclass(frozen=True)
class Spec:
    """What a network is built from, besides the environment. The fields are the settings of these
    names, which configs/default.py explains.
    """

    network: str
    hidden_dim: int
    num_layers: int
    channels: int
    separate_critic: bool
    compute_dtype: str
    turn_boards: bool = False

    @classmethod
    def of(cls, settings: Any) -> Spec:
        """The spec in the settings of a run, or in another spec."""
        return cls(**{each.name: getattr(settings, each.name) for each in fields(cls)})


def make(settings: Any, env: Environment) -> Network:
    """The network of these settings for the observations and actions of an environment."""
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
    with plugins.as_user_error(f"network={spec.network}: its `refuses` fails"):
        reason = torso.refuses(spec, env.observation)
    if reason:
        raise UserError(f"network={spec.network} does not support {env.name}: {reason}")
    turning = Turning.of(env.landmark, env.action_names) if spec.turn_boards else None
    if spec.turn_boards and not turning:
        raise UserError(
            f"turn_boards=True is not supported by {env.name}, which does not say what its boards "
            "can be turned towards (Environment.landmark), or has no actions up, down, left, right"
        )
    if turning and (taken := turning.shapes({}).keys() & env.observation.keys()):
        raise UserError(
            f"turn_boards=True is not supported by {env.name}: it tells the network how a board "
            f"was turned in the part {taken.pop()}, and the environment has one of that name"
        )
    network = Network(spec, torso, dict(env.observation), env.num_actions, turning)
    if spec.network not in NETWORKS:
        check_shapes(network)
    return network


def numpy_address(network: str) -> str | None:
    """MODULE:NAME of the `NumpyTorso` of a network; None if it has none. A torso from outside of
    this package, which is imported, names it by its attribute `in_numpy`.
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
