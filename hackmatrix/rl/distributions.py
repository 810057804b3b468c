"""Distributions over the valid actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from hackmatrix.rl.draws import gumbel

if TYPE_CHECKING:
    import distrax

Array = jax.Array
# The logit of an invalid action: finite, to avoid NaN, and so low that its probability and its term
# of the entropy are exactly 0.
_NEVER = -1e9


def masked(logits: Array, mask: Array) -> distrax.Categorical:
    """Returns the distribution of logits f32[..., A] over the actions that the mask allows.

    It is uniform where the mask allows none; any action then ends the game.
    """
    import distrax  # takes 1.5 s, for which programs that never choose an action need not wait

    return distrax.Categorical(logits=jnp.where(mask, logits, _NEVER))


def sample(choices: distrax.Categorical, keys: Array) -> Array:
    """Draws an action from each of the distributions [E], with a key [E] for each: i32[E]."""
    noise = gumbel(keys, choices.num_categories)
    return jnp.argmax(choices.logits + noise, axis=-1).astype(jnp.int32)
