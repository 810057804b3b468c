"""Configurations resolved as a command line would resolve them."""

from __future__ import annotations

from typing import Any

from configs import default
from hackmatrix.train.config import Config, resolve


def config(**given: Any) -> Config:
    """Returns a small configuration but for the given settings."""
    small = {
        "num_envs": 16, "num_steps": 16, "num_minibatches": 2, "update_epochs": 2,
        "hidden_dim": 32, "lr": 1e-3, "total_timesteps": 100_000,
    }  # fmt: skip
    return resolve({**default.get_config(), **small, **given}, "cpu", 8)


def resolved(platform: str = "cpu", devices: int = 1, **given: Any) -> Config:
    """Returns the default configuration but for the given settings."""
    raw = default.get_config()
    raw.update(given)
    return resolve(raw, platform, devices)
