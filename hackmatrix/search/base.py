"""What every search has: a step of the exact game, what the network thinks of where it leads, and
what a search tells of boards in the end.
"""

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
    """Raw keys [..., 2] for an environment, of which nothing else is derived. It splits them as it
    likes, often in the same way as a search splits its own: a draw of the search would then foresee
    what happens. The search's own are `fold_in(keys, number)` with numbers from 1.
    """
    return jax.random.key_data(fold_in(keys, 0))


class Found(struct.PyTreeNode):
    """What was found on [E] boards."""

    action: Array  # i32[E]: the one to take
    policy: Array  # f32[E, A]: probabilities of a policy that is better than the network's
    value: Array  # f32[E, A]: what the actions are worth; the board's value where none was tried


class ModelStep(NamedTuple):
    """What a step led to: the boards [E] after it, the actions that the network would take there,
    and what it thinks them worth; what the step itself earned, and where an episode ended with it.
    """

    boards: Any
    choice: distrax.Categorical
    value: Array
    reward: Array
    ended: Array


@dataclass(frozen=True, eq=False)  # so that jax.jit can tell it from others
class Search:
    """What every search plays on: the exact game and a network trained on the signal."""

    env: Environment
    network: Forward
    signal: RewardSignal

    def evaluate(self, params: Any, seen: Any) -> tuple[distrax.Categorical, Array, Array]:
        """The actions that the network would take, what it thinks the boards worth, and the mask of
        what is valid, of what is seen on [E] boards.
        """
        observation, mask = self.env.decode(seen)
        logits, value = self.network(params, observation)
        return distributions.masked(logits, mask), value, mask

    def step(self, params: Any, keys: Array, boards: Any, actions: Array) -> ModelStep:
        """One step by keys [E], and the network's view of the result; a truncated episode's reward
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
