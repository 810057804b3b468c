"""Checks observations and masks, and chooses actions from logits, for policies in JAX and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from hackmatrix.errors import UserError


def check(observation: np.ndarray, mask: np.ndarray, size: int, actions: int) -> None:
    """Raises UserError unless these are finite observations f32[..., size] and masks
    bool[..., actions] that each allow an action.
    """
    batch = observation.shape[:-1]
    if observation.shape != (*batch, size) or mask.shape != (*batch, actions):
        raise UserError(
            f"observation and mask must have shapes [{size}] and [{actions}], or [B, {size}] and "
            f"[B, {actions}], not {list(observation.shape)} and {list(mask.shape)}"
        )
    if not mask.any(-1).all():
        raise UserError("the mask allows no action: at least one must be valid")
    if not np.isfinite(observation).all():
        raise UserError("the observation is not finite: it has NaN or infinite numbers")


def chosen(logits: np.ndarray, mask: np.ndarray, draws: np.random.Generator | None) -> Any:
    """Returns the likeliest of the actions that the mask bool[..., A] allows, or with `draws` one
    drawn from the distribution of the logits f32[..., A]: i32[...], or an int without batch axes.
    """
    if draws is not None:
        logits = logits + draws.gumbel(size=logits.shape)
    actions = np.where(mask, logits, -np.inf).argmax(-1).astype(np.int32)
    return actions if actions.ndim else int(actions)
