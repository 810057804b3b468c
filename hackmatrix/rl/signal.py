"""What an agent learns from: the reward of the environment, discounted, or one that is shaped."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix.envs import Environment
from hackmatrix.envs.protocol import Shaping
from hackmatrix.errors import UserError

Array = jax.Array


class NoPotential(UserError):
    """A setting that asks for what the environment does not have."""


@dataclass(frozen=True)
class Signal:
    """The discount; whether the potential's change is rewarded instead of what the environment
    gives for it; and whether the rest is compressed: symlog(r) = sign(r) log(1 + |r|).
    """

    gamma: float
    potential_shaping: bool = False
    compress_rewards: bool = False

    @classmethod
    def of(cls, settings: Any) -> Signal:
        """The signal in the settings of a run, or in what is known of a policy."""
        return cls(**{each.name: getattr(settings, each.name) for each in fields(cls)})

    def check(self, env: Environment) -> None:
        if self.potential_shaping and not env.has_potential:
            raise NoPotential(
                f"potential_shaping=True is not for {env.name}, which has no potential"
            )

    def learned(self, reward: Array, shaping: Shaping | None) -> Array:
        """What is learned from, of the rewards of steps."""
        if not self.potential_shaping or shaping is None:
            return self._compressed(reward)
        # What leaves the best policy what it is (Ng et al. 1999).
        rest = self._compressed(reward - shaping.rewarded)
        return rest + self.gamma * shaping.after - shaping.before

    def _compressed(self, reward: Array) -> Array:
        return jnp.sign(reward) * jnp.log1p(jnp.abs(reward)) if self.compress_rewards else reward
