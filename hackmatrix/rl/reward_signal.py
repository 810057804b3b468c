"""The reward that an agent learns from: the environment's, possibly shaped and compressed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix.envs import Environment
from hackmatrix.envs.protocol import Shaping
from hackmatrix.errors import UserError

Array = jax.Array


@dataclass(frozen=True)
class RewardSignal:
    """Turns the environment's rewards into those that an agent learns from.

    `gamma` is the discount. With `potential_shaping` the discounted change of the potential
    replaces `Shaping.rewarded`, a part of the reward. With `compress_rewards` the rest r of the
    reward becomes symlog(r) = sign(r) log(1 + |r|). `owned_reward_end` is added for each possession
    gained.
    """

    gamma: float
    potential_shaping: bool = False
    compress_rewards: bool = False
    owned_reward_end: float = 0.0

    @classmethod
    def of(cls, settings: Any) -> RewardSignal:
        """Reads the signal from the settings of a run, or from the metadata of a policy."""
        return cls(**{each.name: getattr(settings, each.name) for each in fields(cls)})

    def check(self, env: Environment) -> None:
        if self.potential_shaping and not env.has_potential:
            raise UserError(
                f"potential_shaping=True is not supported by {env.name}, which has no potential"
            )
        if self.owned_reward_end:
            check_owned(env, "owned_reward_end", self.owned_reward_end)

    def learned(self, reward: Array, shaping: Shaping | None) -> Array:
        """Returns the rewards to learn from, for the environment's rewards of steps."""
        if shaping is None:
            return self._compressed(reward)
        if self.potential_shaping:
            # Shaping of this form does not change the optimal policy (Ng et al. 1999); leaving out
            # the rewards that it replaces may.
            rest = self._compressed(reward - shaping.rewarded)
            learned = rest + self.gamma * shaping.after - shaping.before
        else:
            learned = self._compressed(reward)
        if shaping.gained is None or not self.owned_reward_end:
            return learned
        return learned + self.owned_reward_end * shaping.gained

    def _compressed(self, reward: Array) -> Array:
        return jnp.sign(reward) * jnp.log1p(jnp.abs(reward)) if self.compress_rewards else reward


def check_owned(env: Environment, setting: str, reward: float) -> None:
    """Raises UserError if a setting rewards possessions in an environment that has none."""
    if not env.has_possessions:
        raise UserError(
            f"{setting}={reward} is not supported by {env.name}, whose players own nothing "
            "(Environment.has_possessions)"
        )
