"""The numbers that the algorithm is run with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Under the names of the configuration, where they are explained.

    The boards come in groups of `group_envs` with consecutive numbers; a group is never split over
    devices.
    """

    num_steps: int
    group_envs: int
    num_minibatches: int
    update_epochs: int
    gamma: float
    gae_lambda: float
    clip_eps: float
    vf_coef: float
    ent_coef: float
    max_grad_norm: float
    lr: float
    decay_updates: int | None  # until the rate has come down to 0; None: it stays
    scale_returns: bool
