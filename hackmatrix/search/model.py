"""The game as a search plays it: a step, and what the network thinks of where it leads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from hackmatrix.envs import Environment
from hackmatrix.rl import distributions
from hackmatrix.rl.draws import key_of_each
from hackmatrix.rl.games import Forward
from hackmatrix.rl.signal import Signal

if TYPE_CHECKING:
    import distrax

Array = jax.Array


def for_environment(keys: Array) -> Array:
    """Raw keys [..., 2] for an environment, of which nothing else is derived. It splits them as it
    likes, often in the same way as a search splits its own: a draw of the search would then foresee
    what happens. The search's own are `key_of_each(keys, number)` with numbers from 1.
    """
    return jax.random.key_data(key_of_each(keys, 0))


class Imagined(NamedTuple):
    """What a step led to: the boards [E] after it, the actions that the network would take there,
    and what it thinks them worth; what the step itself earned, and where an episode ended with it.
    """

    boards: Any
    choice: distrax.Categorical
    value: Array
    reward: Array
    ended: Array


@dataclass(frozen=True, eq=False)
class Model:
    """The exact game, and a network that was trained on the signal."""

    env: Environment
    network: Forward
    signal: Signal

    def judge(self, params: Any, seen: Any) -> tuple[distrax.Categorical, Array, Array]:
        """The actions that the network would take, what it thinks the boards worth, and the mask of
        what is valid, of what is seen on [E] boards.
        """
        observation, mask = self.env.decode(seen)
        logits, value = self.network(params, observation)
        return distributions.masked(logits, mask), value, mask

    def step(self, params: Any, keys: Array, boards: Any, actions: Array) -> Imagined:
        """By keys [E]. An episode that was cut off is still worth what it promised."""
        raw = for_environment(keys)
        boards, outcome, seen = self.env.step_and_encode(raw, boards, actions)
        choice, value, _ = self.judge(params, seen)
        reward = self.signal.learned(outcome.reward, outcome.shaping)
        if self.env.truncates:
            final = self.network(params, self.env.decode(outcome.final)[0])[1]
            reward = reward + self.signal.gamma * jnp.where(outcome.cut_off, final, 0)
        return Imagined(boards, choice, value, reward, outcome.ended)
