"""The actor-critic network: a torso, a policy head and a value head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from hackmatrix import plugins
from hackmatrix.envs import Environment
from hackmatrix.errors import UserError
from hackmatrix.networks import Spec
from hackmatrix.networks.dense import Dense
from hackmatrix.networks.files import by_path
from hackmatrix.networks.torso import Parts, Torso
from hackmatrix.networks.turning import Turning, turned_towards

Array = jax.Array
Params = Any
# So small that the initial policy is almost uniform over the valid actions.
_ACTOR_SCALE = 0.01


class ActorCritic(nn.Module):
    """A torso with a policy head and a value head, and optionally a torso of the critic's own.

    The heads share the torso's scope: in the parameter tree their layers lie beside the torso's.
    They compute in float32 even if the torso computes in bfloat16, in which logits or values that
    are close to each other would round to the same number.
    """

    torso: Torso
    critic_torso: Torso | None
    num_actions: int

    def setup(self) -> None:
        nn.share_scope(self, self.torso)
        self.actor = _head(self.num_actions, _ACTOR_SCALE)
        self.critic = _head(1, 1)

    def __call__(self, parts: Parts) -> tuple[Array, Array]:
        """Returns logits f32[..., A] and values f32[...] for the parts f32[..., *shape]."""
        features = _features(self.torso, parts)
        critic_features = _features(self.critic_torso, parts) if self.critic_torso else features
        return self.actor(features), self.critic(critic_features)[..., 0]


def _features(torso: Torso, parts: Parts) -> Array:
    features = torso(parts)
    if not isinstance(features, Array):
        raise TypeError(f"its `__call__` returns {type(features).__name__}, not a jax.Array")
    if not jnp.issubdtype(features.dtype, jnp.floating):
        raise TypeError(f"its features are {features.dtype}; they must be floating point")
    name, shape = next(iter(torso.observation.items()))
    batch = parts[name].shape[: parts[name].ndim - len(shape)]
    if features.shape[:-1] != batch:
        raise ValueError(f"for batch shape {[*batch]} its features have shape {[*features.shape]}")
    return features.astype(jnp.float32)


@dataclass(frozen=True)
class Network:
    """A network for observations with these parts, as a pure function of its parameters."""

    spec: Spec
    torso: type[Torso]
    observation: Mapping[str, tuple[int, ...]]
    num_actions: int
    turning: Turning | None = None

    def init(self, key: Array) -> Params:
        """Returns the initial parameters, all float32."""
        with jax.enable_x64(False):
            zeros = {name: jnp.zeros((1, *shape)) for name, shape in self._torso_shapes().items()}
            return self._module().init(key, zeros)

    def __call__(self, params: Params, parts: Parts) -> tuple[Array, Array]:
        """Returns logits f32[..., A] and values f32[...] for the parts f32[..., *shape]."""
        if self.turning is None:
            return self._outputs(params, parts)
        parts, turn = self.turning.turned(parts)
        logits, values = self._outputs(params, parts)
        return self.turning.turned_back(logits, turn), values

    def turned(self, env: Environment) -> Environment:
        """Returns the environment, which turns boards in place of this network if it can."""
        return env.turned_by(turned_towards) if self.turning else env

    def exactly(self, params: Params, parts: Parts) -> tuple[Array, Array]:
        """Like a call, but in float32 whatever the compute dtype, and on accelerators, too."""
        spec = replace(self.spec, compute_dtype="float32")
        with jax.default_matmul_precision("highest"):
            return replace(self, spec=spec)(params, parts)

    def fitted(self, params: Params, file: str) -> Params:
        """Returns the parameters read from `file` in this network's tree structure. Raises
        UserError if a parameter is missing, unknown or of another shape.
        """
        ours = jax.eval_shape(lambda: self.init(jax.random.key(0)))  # without computing a key
        given, wanted = by_path(params), by_path(ours)
        for path in sorted({*given, *wanted}):
            was, now = ([*leaf[path].shape] if path in leaf else "none" for leaf in (given, wanted))
            if was != now:
                raise UserError(
                    f"{file} does not fit network={self.spec.network}, which has changed since: "
                    f"{path} is {was} in the file and {now} in the network"
                )
        return jax.tree.unflatten(jax.tree.structure(ours), [given[path] for path in wanted])

    def _outputs(self, params: Params, parts: Parts) -> tuple[Array, Array]:
        # In their declared order again: JAX sorts the keys of a dict when it flattens it.
        parts = {name: parts[name] for name in self._torso_shapes()}
        return cast(tuple[Array, Array], self._module().apply(params, parts))

    def _torso_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Returns the shapes of the parts that the torso sees."""
        return self.turning.shapes(self.observation) if self.turning else self.observation

    def _module(self) -> ActorCritic:
        given = self.spec, self._torso_shapes()
        arguments = plugins.arguments(self.spec.network)
        torso = self.torso(*given, **arguments)
        critic_torso = self.torso(*given, **arguments) if self.spec.separate_critic else None
        return ActorCritic(torso, critic_torso, self.num_actions)


def with_value_unit(params: Params, unit: Array) -> Params:
    """Returns parameters with which the network's values are `unit` times as large."""
    layers = params["params"]
    critic = jax.tree.map(lambda leaf: leaf * unit, layers["critic"])
    return {"params": {**layers, "critic": critic}}


def _head(width: int, scale: float) -> Dense:
    return Dense(width, scale, precision=jax.lax.Precision.HIGHEST)
