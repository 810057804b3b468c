"""Generalised advantage estimation (GAE)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hackmatrix.game import tracing

Array = jax.Array
# Accelerators take microseconds for each iteration of a loop. A CPU does not, and there each step
# of an unrolled iteration would compute the steps before it once more.
_UNROLL = 16


def gae(
    rewards: Array, values: Array, ended: Array, last_values: Array, gamma: float, lam: float
) -> Array:
    """Returns the advantages f32[T, E] of the actions taken.

    `rewards`, `values` (of the observations acted upon) and `ended` are [T, E]; `last_values` [E]
    are the values of the observations after the last step. Nothing is bootstrapped over the end of
    an episode: the last reward of a truncated one must include its discounted final value.
    """

    def backwards(
        later: tuple[Array, Array], step: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], Array]:
        advantage, next_value = later
        reward, value, end = step
        going_on = 1 - end.astype(jnp.float32)
        error = reward + gamma * going_on * next_value - value
        advantage = error + gamma * lam * going_on * advantage
        return (advantage, value), advantage

    last = (jnp.zeros_like(last_values), last_values)
    steps = (rewards, values, ended)
    unroll = 1 if tracing.on_cpu() else _UNROLL
    return jax.lax.scan(backwards, last, steps, reverse=True, unroll=unroll)[1]
