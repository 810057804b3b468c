"""What an agent learns from: the reward of the environment, discounted, or one that is shaped."""

from __future__ import annotations

from dataclasses import dataclass

import jax

from hackmatrix.envs import Environment
from hackmatrix.envs.protocol import Shaping
from hackmatrix.errors import UserError

Array = jax.Array


class NoPotential(UserError):
    """A setting that asks for what the environment does not have."""


@dataclass(frozen=True)
class Signal:
    """The discount, and whether the potential's change is rewarded instead of what the environment
    gives for it.
    """

    gamma: float
    potential_shaping: bool

    def check(self, env: Environment) -> None:
        if self.potential_shaping and not env.has_potential:
            raise NoPotential(
                f"potential_shaping=True is not for {env.name}, which has no potential"
            )

    def of(self, reward: Array, shaping: Shaping | None) -> Array:
        """What is learned from, of the rewards of steps."""
        if self.potential_shaping and shaping is not None:
            return reward + shaping.potential_based(self.gamma)
        return reward
