"""Looking ahead: actions are tried on the game itself, and the one that came out best is taken.

The tries of a move are dealt out in rounds (sequential halving, Karnin et al. 2013): the first
round goes to the actions that the policy likes best, and each round after it to the better half of
those tried before. A try is a game from here on, in which the policy chooses all further actions;
what its return is after `depth` steps, and the value of where it is then, are what it came to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs import Environment
from hackmatrix.envs.protocol import Parts
from hackmatrix.rl import distributions

Array = jax.Array
# Logits f32[B, A] and values f32[B] of observations [B], with these parameters.
Forward = Callable[[Any, Parts], tuple[Array, Array]]
ROUNDS = 4
_LOW = -1e9  # below any return
_HIDDEN, _STEP, _ACT = range(3)  # what keys are for


class Plan(struct.PyTreeNode):
    """What was found of [E] boards. `value` f32[E, A] is what the tries of an action came to on
    average (very low where there was none), `tries` f32[E, A] their number.
    """

    action: Array
    value: Array
    tries: Array


@dataclass(frozen=True, eq=False)  # so that jax.jit can tell it from others
class Planner:
    """Plans with `simulations` tries a move, each `depth` steps long.

    An honest one tries every action on boards that look the same to the player, with all that is
    hidden drawn anew for each try; the other one plans on the boards as they are.
    """

    env: Environment
    network: Forward
    simulations: int
    depth: int = 32
    honest: bool = True

    def __call__(self, params: Any, keys: Array, boards: Any) -> Plan:
        """The plan for each of [E] boards, from keys [E]."""
        observation, mask = self.env.decode(self.env.encode(boards))
        liking = jnp.where(mask, self.network(params, observation)[0], _LOW)
        valid = mask.sum(-1)
        nothing = jnp.zeros(mask.shape)
        place = jnp.arange(-(-self.simulations // ROUNDS))

        def deal(number: Array, carry: tuple[Plan, Array]) -> tuple[Plan, Array]:
            """A round: each of the better half of the actions gets as many tries."""
            plan, total = carry
            half = (valid + (1 << number) - 1) >> number
            kept = jnp.clip(half, jnp.minimum(valid, 2), place.size).clip(1)
            order = jnp.argsort(-plan.value, axis=-1)
            first = jnp.take_along_axis(order, place % kept[:, None], axis=-1)
            # Actions are compared under the same draws.
            of_round = jax.vmap(jax.random.fold_in, (0, None))(keys, number)
            of_each = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)))(
                of_round, (place // kept[:, None]).astype(jnp.uint32)
            )
            came_to = self._try(params, of_each, boards, first)
            chosen = jax.nn.one_hot(first, mask.shape[-1])
            tries = plan.tries + chosen.sum(1)
            total = total + (came_to[..., None] * chosen).sum(1)
            value = jnp.where(tries > 0, total / jnp.maximum(tries, 1), _LOW)
            return Plan(jnp.argmax(value, -1).astype(jnp.int32), value, tries), total

        before = Plan(jnp.argmax(liking, -1).astype(jnp.int32), liking, nothing)
        return jax.lax.fori_loop(0, ROUNDS, deal, (before, nothing))[0]

    def look_ahead(self, params: Any, keys: Array, boards: Any) -> Array:
        """The best actions i32[E], as `hackmatrix.rl.evaluation.LookAhead` gives them."""
        return self(params, keys, boards).action

    def _try(self, params: Any, keys: Array, boards: Any, first: Array) -> Array:
        """What each try came to f32[E, N], from keys [E, N] and its first action i32[E, N]."""
        shape = first.shape
        keys = keys.reshape(-1)
        boards = jax.tree.map(lambda leaf: jnp.repeat(leaf, shape[1], axis=0), boards)
        if self.honest:
            boards = self.env.redrawn(_raw(keys, _HIDDEN, 0), boards)
        playing = jnp.ones(keys.shape, bool)
        boards, playing, total = self._step(
            keys, jnp.uint32(0), first.reshape(-1), (boards, playing, jnp.zeros(keys.shape))
        )

        def step(carry: tuple, number: Array) -> tuple[tuple, None]:
            observation, mask = self.env.decode(self.env.encode(carry[0]))
            choice = distributions.masked(self.network(params, observation)[0], mask)
            action = distributions.sample(choice, _keys(keys, _ACT, number))
            return self._step(keys, number, action, carry), None

        steps = jnp.arange(1, self.depth, dtype=jnp.uint32)
        (boards, playing, total), _ = jax.lax.scan(step, (boards, playing, total), steps)
        observation, _ = self.env.decode(self.env.encode(boards))
        total = total + jnp.where(playing, self.network(params, observation)[1], 0)
        return total.reshape(shape)

    def _step(self, keys: Array, number: Array, action: Array, carry: tuple) -> tuple:
        """A step of all tries; what a new game brings in after an end does not count."""
        boards, playing, total = carry
        boards, outcome = self.env.step(_raw(keys, _STEP, number), boards, action)
        total = total + jnp.where(playing, outcome.reward, 0)
        return boards, playing & ~outcome.ended, total


def _keys(keys: Array, purpose: int, number: Array | int) -> Array:
    return jax.vmap(lambda key: jax.random.fold_in(jax.random.fold_in(key, purpose), number))(keys)


def _raw(keys: Array, purpose: int, number: Array | int) -> Array:
    return jax.random.key_data(_keys(keys, purpose, number))
