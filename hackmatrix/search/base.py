"""What all searches share: steps of the exact game, their evaluation by the network, the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from hackmatrix.envs import Environment
from hackmatrix.rl import distributions
from hackmatrix.rl.draws import fold_in
from hackmatrix.rl.games import Forward
from hackmatrix.rl.reward_signal import RewardSignal

if TYPE_CHECKING:
    import distrax

Array = jax.Array


def env_keys(keys: Array) -> Array:
    """Returns raw keys [..., 2] for the environment alone. If a search drew from the same keys, its
    draws could be the environment's, which may split keys in the same way, and so foresee what
    happens. A search's own keys are `fold_in(keys, number)` with numbers from 1.
    """
    return jax.random.key_data(fold_in(keys, 0))


class Found(struct.PyTreeNode):
    """The result of a search on [E] boards."""

    action: Array  # i32[E]: the one to take
    policy: Array  # f32[E, A]: probabilities of the improved policy
    value: Array  # f32[E, A]: of each action; the board's for actions that were not tried


class ModelStep(NamedTuple):
    """The result of a step on [E] boards."""

    boards: Any  # after the step
    choice: distrax.Categorical  # the network's policy there
    value: Array  # f32[E]: the network's value there
    reward: Array  # f32[E]: of the step, as the signal has it
    ended: Array  # bool[E]: where the step ended an episode


@dataclass(frozen=True, eq=False)  # compared and hashed by identity, for jax.jit
class Search:
    """The base of searches: the exact game, and a network trained on the signal."""

    env: Environment
    network: Forward
    signal: RewardSignal

    def evaluate(self, params: Any, seen: Any) -> tuple[distrax.Categorical, Array, Array]:
        """Returns the network's policy, its values f32[E] and the mask of valid actions bool[E, A]
        for the encoded observations of [E] boards.
        """
        observation, mask = self.env.decode(seen)
        logits, value = self.network(params, observation)
        return distributions.masked(logits, mask), value, mask

    def step(self, params: Any, keys: Array, boards: Any, actions: Array) -> ModelStep:
        """Plays one step with keys [E] and evaluates the result; a truncated episode's reward
        includes the discounted value of its final observation.
        """
        raw = env_keys(keys)
        boards, outcome, seen = self.env.step_and_encode(raw, boards, actions)
        choice, value, _ = self.evaluate(params, seen)
        reward = self.signal.learned(outcome.reward, outcome.shaping)
        if self.env.truncates:
            final = self.network(params, self.env.decode(outcome.final)[0])[1]
            reward = reward + self.signal.gamma * jnp.where(outcome.cut_off, final, 0)
        return ModelStep(boards, choice, value, reward, outcome.ended)
