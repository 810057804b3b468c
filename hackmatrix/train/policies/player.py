"""Plays one game of an environment with a policy and the random draws of an evaluation."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix.compile_cache.programs import CachedJit
from hackmatrix.envs.headless import Decision
from hackmatrix.envs.protocol import in_parts
from hackmatrix.networks.actor_critic import Network, Params
from hackmatrix.rl import distributions
from hackmatrix.rl.draws import Purpose, key_for, seed_key
from hackmatrix.rl.rollout import UpdateKey
from hackmatrix.train.policies.policy import Policy

if TYPE_CHECKING:
    from hackmatrix.search.base import Found
    from hackmatrix.search.planner import Planner

Array = jax.Array


class Player:
    """Chooses actions in game `number` of a seed, with the draws of an evaluation for it."""

    def __init__(
        self,
        policy: Policy,
        seed: int,
        number: int,
        greedy: bool = False,
        planner: Planner | None = None,
    ) -> None:
        self._seed, self._number, self._greedy = _word(seed), _word(number), greedy
        self._params = jax.device_put(policy.params)
        look = functools.partial(_look, policy.network, policy.env.observation)
        self._look = CachedJit(jax.jit(look))
        self._keys = CachedJit(_keys)
        self._plan = CachedJit(jax.jit(functools.partial(_plan, planner))) if planner else None

    def choose(self, observation: np.ndarray, mask: np.ndarray, step: int, board: Any) -> Decision:
        """Returns the action, the probabilities of all actions, and the value. With a planner they
        are what its search from the board (a batch of one) found: the best action, the improved
        policy, and the value of that action.
        """
        draw = self._seed, _word(step), self._number
        if self._plan:
            found: Found = self._plan(self._params, *draw, board)
            action = int(found.action[0])
            probabilities, value = np.asarray(found.policy)[0], np.asarray(found.value)[0, action]
        else:
            said = self._look(self._params, observation, mask, *draw)
            likeliest, drawn, probabilities, value = map(np.asarray, said)
            action = int(likeliest if self._greedy else drawn)
        chances = [round(float(each), 4) for each in probabilities]
        return Decision(action, chances, round(float(value), 4))

    def step_key(self, step: int | None) -> tuple[np.ndarray, int]:
        """Returns a step's raw key and the game number to fold into it; None is the new game."""
        of_reset, of_step = self._keys(self._seed, _word(step or 0))
        return np.asarray(of_reset if step is None else of_step), int(self._number)


def _look(
    network: Network,
    shapes: Mapping[str, tuple[int, ...]],
    params: Params,
    observation: Array,
    mask: Array,
    *draw: Array,
) -> tuple[Array, ...]:
    """Returns the likeliest action on a board, a drawn one, all probabilities, and the value."""
    seed, step, number = draw
    logits, value = network(params, in_parts(observation[None], shapes))
    choice = distributions.masked(logits, mask[None])
    keys = UpdateKey(seed_key(seed), 0).each(Purpose.ACT, step, number[None])
    drawn = distributions.sample(choice, keys)
    said = jnp.argmax(choice.logits, -1), drawn, choice.probs, value
    return tuple(each[0] for each in said)


def _plan(
    planner: Planner, params: Params, seed: Array, step: Array, number: Array, board: Any
) -> Found:
    keys = UpdateKey(seed_key(seed), 0).each(Purpose.PLAN, step, number[None])
    return planner(params, keys, board, jnp.ones(1, bool))


@jax.jit
def _keys(seed: Array, step: Array) -> tuple[Array, Array]:
    """Returns the raw keys of the beginning of games and of this step."""
    key = seed_key(seed)
    keys = key_for(key, Purpose.RESET), key_for(key, Purpose.STEP, 0, step)
    return tuple(map(jax.random.key_data, keys))  # type: ignore[return-value]


def _word(number: int) -> np.uint32:
    """Returns the lowest 32 bits of a number, which is what keys are made from."""
    return np.uint32(number & 0xFFFFFFFF)
