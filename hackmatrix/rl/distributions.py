"""Distributions over the valid actions."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from hackmatrix import plugins
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
    return library().Categorical(logits=jnp.where(mask, logits, _NEVER))


def library() -> Any:
    """Returns distrax. It takes 1.5 s to load, for which programs that never choose an action need
    not wait. Raises UserError if it cannot be loaded: it needs a nightly build of TensorFlow
    Probability, whose version cannot be pinned, and which may not fit this version of JAX.
    """
    with plugins.as_user_error("distrax, which draws actions, cannot be loaded"):
        return importlib.import_module("distrax")


def sample(choices: distrax.Categorical, keys: Array) -> Array:
    """Draws an action from each of the distributions [E], with a key [E] for each: i32[E]."""
    noise = gumbel(keys, choices.num_categories)
    return jnp.argmax(choices.logits + noise, axis=-1).astype(jnp.int32)
