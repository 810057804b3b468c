"""Toys that can be searched."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.envs.toy import Boards, Toy


class Open(Toy):
    """Nothing is hidden."""

    def redrawn(self, keys: jax.Array, states: Boards) -> Boards:
        return states


class Veiled(Toy):
    """The player does not see which action is wanted: any valid one may be."""

    def redrawn(self, keys: jax.Array, states: Boards) -> Boards:
        weights = jnp.where(states.mask, 0.0, -jnp.inf)
        wanted = jax.vmap(jax.random.categorical)(jax.random.wrap_key_data(keys), weights)
        return states.replace(wanted=wanted.astype(jnp.int32))

    def decode(self, seen: Boards) -> Any:
        parts, mask = super().decode(seen)
        return {**parts, "wanted": jnp.zeros_like(parts["wanted"])}, mask
