"""Assigns samples to minibatches, without moving any of them.

The boards form groups, which depend on the configuration and not on the mesh. The samples of each
group are shuffled on their own, and minibatch k is the k-th part of every group. So any number of
devices that divides the number of groups forms the same minibatches, and no sample leaves its
device.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hackmatrix.rl.draws import Purpose, permutation
from hackmatrix.rl.learning.settings import Settings
from hackmatrix.rl.rollout import UpdateKey

Array = jax.Array


def rows(update_key: UpdateKey, epoch: Array, numbers: Array, settings: Settings) -> Array:
    """Returns the rows of each minibatch, i32[minibatches, samples]: indices into samples that are
    flattened from [T, E] to [T * E].

    `numbers` [E] are those of this device's boards.
    """
    group_envs = settings.group_envs
    groups = numbers[::group_envs] // group_envs
    keys = update_key.each(Purpose.SHUFFLE, epoch, groups)
    samples = settings.num_steps * group_envs
    step, board = jnp.divmod(permutation(keys, samples), group_envs)
    first = group_envs * jnp.arange(groups.size, dtype=step.dtype)
    row = step * numbers.size + first[:, None] + board
    parts = settings.num_minibatches
    return row.reshape(groups.size, parts, -1).swapaxes(0, 1).reshape(parts, -1)
