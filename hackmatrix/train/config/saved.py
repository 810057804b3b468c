"""The configuration in a run's directory, and that of a run that is resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hackmatrix.train.config import faults
from hackmatrix.train.config.resolve import ConfigError, config_class, made
from hackmatrix.train.config.settings import FIRST_EDITION, Config, declared

# What follows from the size of an update where it is not given.
_SIZE = ("num_envs", "num_steps")
_FOLLOWS = ("num_minibatches", "update_epochs", "lr")


def to_json(config: Config) -> str:
    return json.dumps(asdict(config), indent=2) + "\n"


def from_json(text: str) -> Config:
    """A resolved configuration, as `to_json` wrote it, perhaps before some settings were there."""
    saved = dict(json.loads(text))
    kind = config_class(saved.get("algorithm"))
    added = {
        name: setting.before
        for name, setting in declared(kind).items()
        if setting.since > FIRST_EDITION
    }
    values = {**added, **saved}
    if found := faults.of_values(values, kind):
        raise ConfigError(list(found.values()))
    return made(kind, values)


def resumed(saved: Config, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values to resume with: as they were saved, but for what is given now. The size of an
    update stays what it was on other devices too; where another one is given, what follows from it
    is chosen anew.
    """
    values = {**asdict(saved), **given}
    if any(values[name] != getattr(saved, name) for name in _SIZE):
        values |= {name: given.get(name) for name in _FOLLOWS}
    return values
