"""Environments of Gymnax 1.x as environments of the trainer."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs.protocol import Environment, Parts, Step
from hackmatrix.errors import UserError

Array = jax.Array
OBSERVATION = "observation"  # the name of the only part, which is flattened
# These fail the type check of shard_map: a loop carry begins as a constant and then varies.
_LOOPING = {"Asterix-MinAtar"}


class Seen(struct.PyTreeNode):
    observation: Array  # f32[E, N]
    mask: Array | None  # bool[E, A]; None where all actions are always valid


class Boards(struct.PyTreeNode):
    """Gymnax states, stored with the observations that Gymnax returned together with them."""

    inner: Any
    seen: Seen


class FromGymnax(Environment):
    """An environment of Gymnax. Its time limits truncate; its `get_action_mask(state)`, if it has
    one, gives the mask.
    """

    truncates = True

    def __init__(self, name: str) -> None:
        self._env, self._params = _gymnax_make(name)
        space = self._env.action_space(self._params)
        if not hasattr(space, "n"):
            raise UserError(f"gymnax:{name} has no discrete actions, which the trainer requires")
        shape = self._env.observation_space(self._params).shape
        self.name = f"gymnax:{name}"
        self.types_are_checked = name not in _LOOPING
        self.action_names = tuple(f"action {number}" for number in range(int(space.n)))
        self.observation = {OBSERVATION: (math.prod(shape),)}
        self.most_actions = max(self.most_actions, int(self._params.max_steps_in_episode))

    def reset(self, keys: Array) -> Boards:
        return jax.vmap(self._reset)(_typed(keys))

    def step(self, keys: Array, states: Boards, actions: Array) -> tuple[Boards, Step]:
        return jax.vmap(self._step)(_typed(keys), states, actions)

    def encode(self, states: Boards) -> Seen:
        return states.seen

    def decode(self, seen: Seen) -> tuple[Parts, Array]:
        every = (*seen.observation.shape[:-1], self.num_actions)
        mask = jnp.ones(every, bool) if seen.mask is None else seen.mask
        return {OBSERVATION: seen.observation}, mask

    def _reset(self, key: Array) -> Boards:
        observation, inner = self._env.reset_env(key, self._params)
        return self._boards(inner, observation)

    def _step(self, key: Array, boards: Boards, action: Array) -> tuple[Boards, Step]:
        # Gymnax's own `step` restarts too, but does not return the mask at the end of an episode.
        step_key, reset_key = jax.random.split(key)
        observation, inner, reward, terminated, _ = self._env.step_env(
            step_key, boards.inner, action, self._params
        )
        after = self._boards(inner, observation)
        terminated = jnp.asarray(terminated, bool)
        truncated = self._env.is_truncated(inner, self._params) & ~terminated
        ended = terminated | truncated
        going_on = jax.tree.map(
            lambda new, old: jnp.where(ended, new, old), self._reset(reset_key), after
        )
        return going_on, Step(
            reward=jnp.asarray(reward, jnp.float32),
            terminated=terminated,
            truncated=truncated,
            final=after.seen,
            each_step={},
            each_episode={},
            highest={},
        )

    def _boards(self, inner: Any, observation: Array) -> Boards:
        mask = getattr(self._env, "get_action_mask", None)
        seen = Seen(
            jnp.ravel(observation).astype(jnp.float32),
            None if mask is None else jnp.asarray(mask(inner), bool),
        )
        return Boards(jax.tree.map(_strongly_typed, inner), seen)


def _typed(keys: Array) -> Array:
    """Wraps raw keys as Threefry keys; JAX would take them for keys of its default generator."""
    return jax.random.wrap_key_data(keys, impl="threefry2x32")


def _strongly_typed(leaf: Any) -> Array:
    """Converts to an array without weak type: a Python number in a state would cause a second
    compilation.
    """
    array = jnp.asarray(leaf)
    return array.astype(array.dtype)


def _gymnax_make(name: str) -> tuple[Any, Any]:
    try:
        import gymnax
    except ImportError as error:
        raise UserError(
            f"gymnax:{name} needs the gymnax package: pip install gymnax six ({error})"
        ) from None
    try:
        return gymnax.make(name)
    except OSError as error:  # some download what they need
        raise UserError(f"gymnax:{name} cannot be created: {error}") from None
    except (KeyError, ValueError):
        raise UserError(f"gymnax has no environment {name!r}") from None
