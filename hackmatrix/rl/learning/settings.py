"""The settings that algorithms of this package have in common."""

from __future__ import annotations

from typing import Protocol

import jax
import jax.numpy as jnp

Array = jax.Array


class Settings(Protocol):
    """The part of a run's configuration that they read; configs/default.py explains it. A number
    that is an input of the compiled program is an f32 scalar.

    Environments form groups of `group_envs` with consecutive numbers; a group is never split over
    devices. With `anneal_lr` the learning rate falls to 0 over `num_updates`. If the batch size
    changed during the run, `extra_updates` is added to the updates done, to count the earlier ones
    as updates of the current size.
    """

    @property
    def num_steps(self) -> int: ...
    @property
    def group_envs(self) -> int: ...
    @property
    def num_minibatches(self) -> int: ...
    @property
    def update_epochs(self) -> int: ...
    @property
    def num_updates(self) -> int: ...
    @property
    def extra_updates(self) -> float: ...
    @property
    def gamma(self) -> float: ...
    @property
    def gae_lambda(self) -> float: ...
    @property
    def vf_coef(self) -> float: ...
    @property
    def max_grad_norm(self) -> float: ...
    @property
    def lr(self) -> float: ...
    @property
    def anneal_lr(self) -> bool: ...
    @property
    def scale_returns(self) -> bool: ...
    @property
    def potential_shaping(self) -> bool: ...
    @property
    def compress_rewards(self) -> bool: ...
    @property
    def owned_reward(self) -> float: ...
    @property
    def owned_reward_end(self) -> float: ...
    @property
    def starts_from_another(self) -> bool: ...


def share_done(settings: Settings, update: Array | int) -> Array:
    """Returns the fraction of a run that is done before an update: 0 at first, 1 at its end."""
    return jnp.asarray((update + settings.extra_updates) / settings.num_updates)


def share_left(settings: Settings, update: Array | int) -> Array:
    """Returns the fraction of a run that is left: 1 at first, 0 from its end on."""
    return jnp.maximum(1 - share_done(settings, update), 0)
