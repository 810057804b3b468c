"""The configuration of a run that goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hackmatrix.train.config import Config

# What follows from the size of an update where it is not given.
_SIZE = ("num_envs", "num_steps")
_FOLLOWS = ("num_minibatches", "update_epochs", "lr")


def resumed(saved: Config, given: Mapping[str, Any]) -> dict[str, Any]:
    """As it was saved, but for what is given now. The size of an update stays what it was on other
    devices too; where another one is given, what follows from it is chosen anew.
    """
    values = {**asdict(saved), **given}
    if any(values[name] != getattr(saved, name) for name in _SIZE):
        values |= {name: given.get(name) for name in _FOLLOWS}
    return values
