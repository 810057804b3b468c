"""A policy that plays one game and says what it thinks; the game of an evaluation, if asked."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.ppo import policy as policies
from hackmatrix.ppo.draws import Purpose, key_for, key_of_each, seed_key
from hackmatrix.ppo.network import ActorCritic, outputs
from hackmatrix.train.policies import Policy

Array = jax.Array


class Thinking:
    """Game `number` of a seed, with the draws that an evaluation makes for it."""

    def __init__(self, policy: Policy, seed: int, number: int, greedy: bool) -> None:
        self._key, self._number, self._greedy = seed_key(seed), number, greedy
        self._network, self._params = policy.network, jax.device_put(policy.params)

    def think(
        self, observation: np.ndarray, mask: np.ndarray, step: int
    ) -> tuple[int, list[float], float]:
        """The action, the probability of each, and the value."""
        act = key_for(self._key, Purpose.ACT, 0, step)
        numbers = np.array([self._number], np.uint32)
        said = _look(self._network, self._params, observation[None], mask[None], act, numbers)
        likeliest, drawn, probabilities, value = (np.asarray(each)[0] for each in said)
        action = int(likeliest if self._greedy else drawn)
        return action, [round(float(each), 4) for each in probabilities], round(float(value), 4)

    def luck(self, step: int | None) -> tuple[np.ndarray, int]:
        """What decides the first board, and what happens in a step."""
        if step is None:
            key = key_for(self._key, Purpose.RESET)
        else:
            key = key_for(self._key, Purpose.STEP, 0, step)
        return np.asarray(jax.random.key_data(key)), self._number


@functools.partial(jax.jit, static_argnums=0)
def _look(
    network: ActorCritic, params: Any, observation: Array, mask: Array, key: Array, numbers: Array
) -> tuple[Array, ...]:
    logits, value = outputs(network, params, observation)
    choice = policies.masked(logits, mask)
    drawn = policies.sample(choice, key_of_each(key, numbers))
    return jnp.argmax(choice.logits, -1), drawn, choice.probs, value
