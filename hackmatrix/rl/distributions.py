"""Distributions over the valid actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from hackmatrix.rl.draws import gumbel

if TYPE_CHECKING:
    import distrax

Array = jax.Array
# Finite, so that nothing becomes NaN; so low that exp of it is exactly 0, as is its share of the
# entropy.
_NEVER = -1e9


def masked(logits: Array, mask: Array) -> distrax.Categorical:
    """Over logits f32[..., A] where the mask is true.

    Where it is true nowhere, all actions are alike: none is valid, and any of them ends the game.
    """
    import distrax  # takes a second and a half, which programs that only look need not wait for

    return distrax.Categorical(logits=jnp.where(mask, logits, _NEVER))


def sample(choices: distrax.Categorical, keys: Array) -> Array:
    """i32[E]: an action from each of the distributions [E], each drawn with a key of its own."""
    noise = gumbel(keys, choices.num_categories)
    return jnp.argmax(choices.logits + noise, axis=-1)
