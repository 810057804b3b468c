"""The configuration in a run's directory, and that of a run that is resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hackmatrix.errors import UserError
from hackmatrix.train.config import autoscale, faults
from hackmatrix.train.config.resolve import CHOOSABLE, config_class, made
from hackmatrix.train.config.settings import FIRST_EDITION, Config, declared

_CHOSEN = "chosen"


def to_json(config: Config) -> str:
    return json.dumps({**config.settings(), _CHOSEN: config.chosen}, indent=2) + "\n"


def from_json(text: str) -> Config:
    """A resolved configuration, as `to_json` wrote it, perhaps before some settings were there.
    ValueError if the text is of none; UserError if its algorithm is not to be found.
    """
    saved = json.loads(text)
    if not isinstance(saved, dict):
        raise ValueError("it holds no settings")
    chosen = saved.pop(_CHOSEN, None)
    kind = config_class(saved.get("algorithm"))
    added = {
        name: setting.before
        for name, setting in declared(kind).items()
        if setting.since > FIRST_EDITION
    }
    values = {**added, **saved}
    if found := faults.of_values(values, kind) | _changes(values, kind):
        raise ValueError("\n".join(found.values()))
    config = made(kind, values)
    return replace(config, chosen=_seem_chosen(config) if chosen is None else tuple(chosen))


def _changes(values: Mapping[str, Any], kind: type[Config]) -> faults.Faults:
    """Of settings that were declared, or are no more, since the run was saved."""
    settings = declared(kind)
    return {
        name: f"{name} is not a setting, but the run was saved with it: declare it again, or use "
        "the sources that its provenance.json names"
        for name in values.keys() - settings
    } | {
        name: f"{name} is missing, as the run was saved without it: declare it with `since=2` and "
        "as `before` what such runs did"
        for name in settings.keys() - values.keys() - declared(Config).keys()
    }


def of_another_run(saved: Config, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given settings that make a run the one that it is, where they are not as saved:
    by them a configuration file describes another run, or this one as a later revision would begin
    it.
    """
    before = saved.settings()
    return {
        name: given[name]
        for name, setting in declared(type(saved)).items()
        if setting.is_fixed and name in given and given[name] != before[name]
    }


def resumed(saved: Config, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values to resume with: as they were saved, but for what is given now; what was chosen for
    the devices found is chosen anew. UserError where one is given that cannot be changed.
    """
    before = saved.settings()
    found = [
        f"{name}={value!r} cannot be changed: this run was begun with {before[name]!r}; "
        "leave it out, or begin a new run without --resume"
        for name, value in of_another_run(saved, given).items()
    ]
    if found:
        raise UserError("\n".join(found))
    return {**before, **dict.fromkeys(saved.chosen), **given}


def _seem_chosen(config: Config) -> tuple[str, ...]:
    """Of a configuration that was saved when it was not known which settings were given: those that
    are as they would have been chosen. The size of an update stayed what it was.
    """
    sizes = config.num_envs, config.num_steps
    would_be = {
        "num_minibatches": autoscale.minibatches(*sizes),
        "update_epochs": autoscale.epochs(*sizes),
        "lr": autoscale.learning_rate(config.gradient_steps),
    }
    return tuple(name for name in CHOOSABLE if would_be.get(name) == getattr(config, name))
