"""The configuration saved in a run's directory, and how it changes when the run is resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hackmatrix.errors import UserError
from hackmatrix.train.config import autoscale, faults
from hackmatrix.train.config.resolve import CHOOSABLE, config_class, made
from hackmatrix.train.config.rules import FOLDER, LONGEST_NAME, MOST_STEPS
from hackmatrix.train.config.settings import FIRST_EDITION, Config, declared
from hackmatrix.whole_files import parsed

_CHOSEN = "chosen"
_LENGTHS = "total_timesteps", "num_envs", "num_steps"


def to_json(config: Config) -> str:
    return json.dumps({**config.settings(), _CHOSEN: config.chosen}, indent=2) + "\n"


def from_json(text: str) -> Config:
    """Returns the resolved configuration that `to_json` wrote, perhaps before some settings
    existed. Raises ValueError if it is not valid, and UserError if its algorithm is not found.
    """
    saved = parsed(text, dict)
    chosen = saved.pop(_CHOSEN, None)
    if not isinstance(chosen, list | None):
        raise ValueError(f"{_CHOSEN}={chosen!r} must be a list of settings")
    kind = config_class(saved.get("algorithm"))
    added = {
        name: setting.before
        for name, setting in declared(kind).items()
        if setting.since > FIRST_EDITION
    }
    values = {**added, **_within_limits(saved)}
    if found := _unresolved(values) | faults.of_values(values, kind) | _changes(values, kind):
        raise ValueError("\n".join(found.values()))
    config = made(kind, values)
    return replace(config, chosen=_seem_chosen(config) if chosen is None else tuple(chosen))


def _within_limits(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Lowers numbers and shortens names, for which earlier revisions had no limits, to today's. A
    run goes by the name of its directory.
    """
    values = dict(saved)
    if all(type(values.get(name)) is int for name in _LENGTHS):
        steps, *batch = (values[name] for name in _LENGTHS)
        values["total_timesteps"] = min(steps, MOST_STEPS, faults.MOST_UPDATES * math.prod(batch))
    for name in ("run_name", "run_suffix"):
        if isinstance(given := values.get(name), str):
            values[name] = given[:LONGEST_NAME]
    return values


def checkpoint_dir(text: str) -> str:
    """Returns this setting of a saved configuration, even if other settings are no longer valid.
    Raises ValueError if it is not valid, and KeyError if another program wrote the file.
    """
    found = parsed(text, dict)["checkpoint_dir"]
    if not isinstance(found, str) or not FOLDER.holds(found):
        raise ValueError(f"checkpoint_dir={found!r} must be {FOLDER.must_be}")
    return found


def _unresolved(values: Mapping[str, Any]) -> faults.Faults:
    return {
        name: f"{name}=None must be a number in a run, as it was chosen when the run began"
        for name in CHOOSABLE
        if values.get(name) is None
    }


def _changes(values: Mapping[str, Any], kind: type[Config]) -> faults.Faults:
    """Returns the faults of settings that were added or removed since the run was saved."""
    settings = declared(kind)
    return {
        name: f"{name} is not a setting, but the run was saved with it: declare it again, or use "
        "the revision named in its provenance.json"
        for name in values.keys() - settings
    } | {
        name: f"{name} is missing, as the run was saved without it: declare it with `since=2` and "
        "`before=` the value that such runs used"
        for name in settings.keys() - values.keys() - declared(Config).keys()
    }


def of_another_run(saved: Config, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the given settings that are fixed for a run and differ from the saved ones. If a
    configuration file has any, it describes another run, or this run as a later revision would
    begin it.
    """
    before = saved.settings()
    return {
        name: given[name]
        for name, setting in declared(type(saved)).items()
        if setting.is_fixed and name in given and given[name] != before[name]
    }


def resumed(saved: Config, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values to resume with: the saved ones, overridden by the given ones. Settings
    that were chosen for the devices are None, to be chosen anew. Raises UserError if a given
    setting is fixed and differs.
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
    """Returns which settings seem to have been chosen in a configuration of an older revision,
    which did not save that: those equal to what would be chosen. num_envs and num_steps never do.
    """
    sizes = config.num_envs, config.num_steps
    would_be = {
        "num_minibatches": autoscale.minibatches(*sizes),
        "update_epochs": autoscale.epochs(*sizes),
        "lr": autoscale.learning_rate(config.gradient_steps),
    }
    return tuple(name for name in CHOOSABLE if would_be.get(name) == getattr(config, name))
