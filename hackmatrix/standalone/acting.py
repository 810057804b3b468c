"""Checks an observation and its mask, and chooses an action by logits: for policies in JAX and in
NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hackmatrix.errors import UserError


def check(observation: np.ndarray, mask: np.ndarray, size: int, actions: int) -> None:
    """UserError unless these are an observation f32[..., size] and its mask bool[..., actions], to
    which there is an answer.
    """
    batch = observation.shape[:-1]
    if observation.shape != (*batch, size) or mask.shape != (*batch, actions):
        raise UserError(
            f"an observation is f32[{size}] and its mask bool[{actions}], or [B, {size}] and "
            f"[B, {actions}]; these are {list(observation.shape)} and {list(mask.shape)}"
        )
    if not mask.any(-1).all():
        raise UserError("the mask allows no action: there is none to take")
    if not np.isfinite(observation).all():
        raise UserError("the observation is not finite: there is nothing to act on")


def chosen(logits: np.ndarray, mask: np.ndarray, draws: np.random.Generator | None) -> Any:
    """Of the actions that the mask bool[..., A] allows the likeliest, or with `draws` one drawn as
    the logits f32[..., A] have it: i32[...], for one of each an int.
    """
    if draws is not None:
        logits = logits + draws.gumbel(size=logits.shape)
    actions = np.where(mask, logits, -np.inf).argmax(-1).astype(np.int32)
    return actions if actions.ndim else int(actions)
