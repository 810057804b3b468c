"""Looking ahead in play: every action is searched for on the game itself, honestly.

A player does not know all of a board. So the search runs on several boards that look the same to
the player, with what is hidden drawn anew for each, and what is best on average is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from hackmatrix.envs import Environment
from hackmatrix.rl.games import Forward
from hackmatrix.rl.signal import Signal
from hackmatrix.search.tree import Found, TreeSearch

Array = jax.Array
_A_WORLD = 32  # simulations, at least


@dataclass(frozen=True, eq=False)  # so that jax.jit can tell it from others
class Planner:
    """Plans with so many simulations a move, over all the boards that it imagines."""

    env: Environment
    network: Forward
    signal: Signal
    simulations: int

    def __call__(self, params: Any, keys: Array, boards: Any) -> Found:
        """The plan for each of [E] boards, from keys [E]: the means over its worlds."""
        worlds = max(1, self.simulations // _A_WORLD)
        search = TreeSearch(self.env, self.network, self.signal, self.simulations // worlds)
        drawn = jax.vmap(lambda key: jax.random.split(key, worlds))(keys).reshape(-1)
        imagined = jax.tree.map(lambda leaf: jnp.repeat(leaf, worlds, axis=0), boards)
        imagined = self.env.redrawn(jax.random.key_data(drawn), imagined)
        no_noise = jnp.zeros((drawn.size, self.env.num_actions))
        valid = jnp.repeat(self.env.mask(boards), worlds, axis=0)
        found = search(params, drawn, imagined, valid, no_noise)
        policy, value = (
            leaf.reshape(keys.size, worlds, -1).mean(1) for leaf in (found.policy, found.value)
        )
        return Found(jnp.argmax(policy, -1).astype(jnp.int32), policy, value)

    def look_ahead(self, params: Any, keys: Array, boards: Any) -> Array:
        """The best actions i32[E], as `hackmatrix.rl.games.LookAhead` gives them."""
        return self(params, keys, boards).action
