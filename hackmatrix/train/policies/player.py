"""A policy that plays one game of an environment, with the draws of an evaluation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.envs.protocol import in_parts
from hackmatrix.networks.actor_critic import Params
from hackmatrix.rl import distributions
from hackmatrix.rl.draws import Purpose, key_for, key_of_each, seed_key
from hackmatrix.rl.rollout import UpdateKey, planning_keys
from hackmatrix.search.planner import Planner
from hackmatrix.search.tree import Found
from hackmatrix.train.policies.policy import Policy

Array = jax.Array


class Player:
    """Plays game `number` of a seed, with the draws that an evaluation makes for it."""

    def __init__(
        self,
        policy: Policy,
        seed: int,
        number: int,
        greedy: bool = False,
        planner: Planner | None = None,
    ) -> None:
        self._key, self._number, self._greedy = seed_key(seed), number, greedy
        self._params = jax.device_put(policy.params)
        network, shapes = policy.network, policy.env.observation

        def look(
            params: Params, observation: Array, mask: Array, key: Array, numbers: Array
        ) -> tuple[Array, ...]:
            logits, value = network(params, in_parts(observation, shapes))
            choice = distributions.masked(logits, mask)
            drawn = distributions.sample(choice, key_of_each(key, numbers))
            return jnp.argmax(choice.logits, -1), drawn, choice.probs, value

        self._look = jax.jit(look)
        self._plan = jax.jit(planner) if planner else None

    def choose(
        self, observation: np.ndarray, mask: np.ndarray, step: int, board: Any
    ) -> tuple[int, list[float], float]:
        """The action, the probability of each, and the value. Where it looks ahead from the board
        (a batch of one) they are what the search found: the best action, the better policy, and
        what that action is worth.
        """
        if self._plan:
            return self._best(self._plan, step, board)
        act = key_for(self._key, Purpose.ACT, 0, step)
        numbers = np.array([self._number], np.uint32)
        said = self._look(self._params, observation[None], mask[None], act, numbers)
        likeliest, drawn, probabilities, value = (np.asarray(each)[0] for each in said)
        action = int(likeliest if self._greedy else drawn)
        return action, [round(float(each), 4) for each in probabilities], round(float(value), 4)

    def _best(self, plan: Any, step: int, board: Any) -> tuple[int, list[float], float]:
        numbers = jnp.array([self._number], jnp.uint32)
        keys = planning_keys(UpdateKey(self._key, 0), step, numbers)
        found: Found = plan(self._params, keys, board)
        action = int(found.action[0])
        probabilities = [round(float(each), 4) for each in found.policy[0]]
        return action, probabilities, round(float(found.value[0, action]), 4)

    def step_key(self, step: int | None) -> tuple[np.ndarray, int]:
        """The key that a step draws from, and the number folded into it; None is the new game."""
        if step is None:
            key = key_for(self._key, Purpose.RESET)
        else:
            key = key_for(self._key, Purpose.STEP, 0, step)
        return np.asarray(jax.random.key_data(key)), self._number
