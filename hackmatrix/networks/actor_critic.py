"""A network: a torso, a head for the policy and one for the value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from hackmatrix.errors import UserError
from hackmatrix.networks import Spec
from hackmatrix.networks.dense import Dense
from hackmatrix.networks.torso import Parts, Torso
from hackmatrix.networks.turning import Turning

Array = jax.Array
Params = Any
# Near 0 the first policy is uniform over the valid actions.
_ACTOR_SCALE = 0.01


class ActorCritic(nn.Module):
    """The heads, whose layers lie beside the torso's among the parameters.

    Heads are float32 also where the torso's products are bfloat16: logits and values that are near
    each other would be the same number there.
    """

    torso: Torso
    critic_torso: Torso | None
    num_actions: int

    def setup(self) -> None:
        nn.share_scope(self, self.torso)
        self.actor = _head(self.num_actions, _ACTOR_SCALE)
        self.critic = _head(1, 1)

    def __call__(self, parts: Parts) -> tuple[Array, Array]:
        """Logits f32[..., A] and values f32[...] of observations in parts f32[..., *shape]."""
        features = _features(self.torso, parts)
        valued = _features(self.critic_torso, parts) if self.critic_torso else features
        return self.actor(features), self.critic(valued)[..., 0]


def _features(torso: Torso, parts: Parts) -> Array:
    features = torso(parts)
    if not isinstance(features, Array):
        raise TypeError(f"its `__call__` gives {type(features).__name__}, and no jax.Array")
    if not jnp.issubdtype(features.dtype, jnp.floating):
        raise TypeError(f"its features are {features.dtype}, through which nothing can be learned")
    name, shape = next(iter(torso.observation.items()))
    batch = parts[name].shape[: parts[name].ndim - len(shape)]
    if features.shape[:-1] != batch:
        raise ValueError(f"of parts {[*batch]} its features have the shape {[*features.shape]}")
    return features.astype(jnp.float32)


@dataclass(frozen=True)
class Network:
    """The network of a spec for observations of these parts. It has no parameters of its own."""

    spec: Spec
    torso: type[Torso]
    observation: Mapping[str, tuple[int, ...]]
    num_actions: int
    turning: Turning | None = None

    def init(self, key: Array) -> Params:
        """First parameters; all of them float32."""
        zeros = {name: jnp.zeros((1, *shape)) for name, shape in self._seen().items()}
        return self._module().init(key, zeros)

    def __call__(self, params: Params, parts: Parts) -> tuple[Array, Array]:
        """Logits f32[..., A] and values f32[...] of observations in parts f32[..., *shape]."""
        if self.turning is None:
            return self._outputs(params, parts)
        parts, turn = self.turning.turned(parts)
        logits, values = self._outputs(params, parts)
        return self.turning.turned_back(logits, turn), values

    def fitted(self, params: Params, file: str) -> Params:
        """The parameters that a file of this name has, in this network's own tree; UserError
        where they are of other shapes.
        """
        ours = jax.eval_shape(self.init, jax.random.key(0))
        given, wanted = _by_path(params), _by_path(ours)
        for path in sorted({*given, *wanted}):
            was, now = ([*leaf[path].shape] if path in leaf else "none" for leaf in (given, wanted))
            if was != now:
                raise UserError(
                    f"{file} does not fit network={self.spec.network}, which has changed since: "
                    f"{path} is {was} in the file, and {now} here"
                )
        return jax.tree.unflatten(jax.tree.structure(ours), [given[path] for path in wanted])

    def _outputs(self, params: Params, parts: Parts) -> tuple[Array, Array]:
        # Not in the order that they come in: JAX sorts what has names.
        parts = {name: parts[name] for name in self._seen()}
        return cast(tuple[Array, Array], self._module().apply(params, parts))

    def _seen(self) -> Mapping[str, tuple[int, ...]]:
        """The parts that the torso sees."""
        return self.turning.shapes(self.observation) if self.turning else self.observation

    def _module(self) -> ActorCritic:
        seen = self._seen()
        torso = self.torso(self.spec, seen)
        apart = self.torso(self.spec, seen) if self.spec.separate_critic else None
        return ActorCritic(torso, apart, self.num_actions)


def _by_path(params: Params) -> dict[str, Any]:
    """The arrays by their paths, as a file names them (hackmatrix.networks.files)."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree.leaves_with_path(params)
    }


def with_value_unit(params: Params, unit: Array) -> Params:
    """The parameters of a network whose values are as many times as large."""
    layers = params["params"]
    critic = jax.tree.map(lambda leaf: leaf * unit, layers["critic"])
    return {"params": {**layers, "critic": critic}}


def _head(width: int, scale: float) -> Dense:
    return Dense(width, scale, precision=jax.lax.Precision.HIGHEST)
