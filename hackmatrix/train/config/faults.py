"""Finds all faults of a configuration, to report them together.

A fault is one line: the setting, its value, and what it must be.
"""

from __future__ import annotations

import difflib
import re
import traceback
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hackmatrix.train.config import autoscale
from hackmatrix.train.config.settings import Config, Setting, declared

Faults = dict[str, str]  # by the name of the setting

SIZES = ("num_envs", "num_steps", "num_minibatches", "update_epochs")
_TYPO, _RELATED = 0.8, 0.4  # least similarity to a setting's name: of a typo, of a related name
# The names of settings in other trainers.
_ELSEWHERE = {
    "learning_rate": "lr", "discount": "gamma", "n_envs": "num_envs", "n_steps": "num_steps",
    "rollout_steps": "num_steps", "n_epochs": "update_epochs", "num_epochs": "update_epochs",
    "batch_size": "num_minibatches", "clip_range": "clip_eps", "clip_coef": "clip_eps",
    "entropy_coef": "ent_coef", "total_steps": "total_timesteps", "hidden_size": "hidden_dim",
}  # fmt: skip
MOST_SAMPLES = 2**31  # 32-bit numbers count the samples of an update
MOST_UPDATES = 2**31 - 1  # and the updates of a run
_UNKNOWN = re.compile(r"\W*(?:Key \W*)?(\w+)")  # how ml_collections begins to say it


def of_values(values: Mapping[str, Any], kind: type[Config]) -> Faults:
    """Returns the faults of single settings: unknown, missing, or with an invalid value."""
    settings = declared(kind)
    undeclared = {name: unknown(name, settings) for name in values if name not in settings}
    missing = {
        name: f"{name} is missing: start the configuration from configs.default.get_config()"
        for name in settings
        if name not in values
    }
    refused = {
        name: wrong(name, values[name], settings)
        for name, setting in settings.items()
        if name in values and not setting.allows(values[name])
    }
    return {**undeclared, **missing, **refused}


def unknown(name: str, names: Collection[str] = declared(Config)) -> str:
    near = [ours] if (ours := _ELSEWHERE.get(name, "")) in names else []
    near = near or difflib.get_close_matches(name, names, n=1, cutoff=_TYPO)
    own = "" if near else "; set those of your own algorithm in a --config=FILE, also to resume"
    near = near or difflib.get_close_matches(name, names, n=3, cutoff=_RELATED)
    advice = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{name} is not a setting: {advice}configs/default.py lists all settings{own}"


def unknown_name(error: Exception) -> str | None:
    """Returns the name that is not a setting, if ml_collections has raised the error for one."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    is_theirs = frame.f_globals.get("__name__", "").startswith("ml_collections.")
    named = isinstance(error, AttributeError | KeyError) and _UNKNOWN.match(str(error))
    return named[1] if named and is_theirs else None


def wrong(name: str, value: Any, settings: Mapping[str, Setting] = declared(Config)) -> str:
    """Returns the fault of a value that the setting does not take."""
    return _fault(name, value, f"must be {settings[name].rule.must_be}")


def of_intervals(save_interval: int | None, log_interval: int) -> Faults:
    if save_interval is None or save_interval % log_interval == 0:
        return {}
    below = save_interval // log_interval * log_interval
    nearest = [each for each in (below, below + log_interval) if each > 0]
    advice = f"must be a multiple of log_interval={log_interval}; {_they_work(nearest)}"
    return {"save_interval": _fault("save_interval", save_interval, advice)}


def of_sizes(sizes: Mapping[str, int], devices: int) -> Faults:
    """Returns the faults of the four sizes in combination, once all of them are known."""
    num_envs, num_steps, num_minibatches, _ = (sizes[name] for name in SIZES)
    if devices > autoscale.MOST_GROUPS:
        advice = f"runs on at most {autoscale.MOST_GROUPS} devices, but there are {devices}"
        return {"num_envs": _fault("num_envs", num_envs, advice)}
    if num_envs * num_steps >= MOST_SAMPLES:
        advice = (
            f"x num_steps={num_steps} is too large: an update has fewer than {MOST_SAMPLES} samples"
        )
        return {"num_envs": _fault("num_envs", num_envs, f"{advice}; lower one of them")}
    faults = {}
    groups = autoscale.groups(num_envs)
    if groups % devices:
        nearest = autoscale.nearest_num_envs(num_envs, devices)
        advice = f"forms {groups} groups, which {devices} devices cannot share equally"
        faults["num_envs"] = _fault("num_envs", num_envs, f"{advice}; {_they_work(nearest)}")
    samples = autoscale.group_samples(num_envs, num_steps)
    if samples % num_minibatches:
        nearest = autoscale.nearest_num_minibatches(num_minibatches, num_envs, num_steps)
        advice = f"does not divide the {samples} samples of a group of environments"
        faults["num_minibatches"] = _fault(
            "num_minibatches", num_minibatches, f"{advice}; {_they_work(nearest)}"
        )
    return faults


def of_length(total_timesteps: int, batch_size: int) -> Faults:
    """Returns a fault if there are too many updates to count, once the batch size is known."""
    updates = total_timesteps // batch_size
    if updates <= MOST_UPDATES:
        return {}
    advice = f"is {updates} updates, but a run can have at most {MOST_UPDATES}"
    advice = f"{advice}; lower it, or raise num_envs or num_steps"
    return {"total_timesteps": _fault("total_timesteps", total_timesteps, advice)}


def _fault(name: str, value: Any, text: str) -> str:
    return f"{name}={value!r} {text}"


def _they_work(numbers: Sequence[int]) -> str:
    return f"{' and '.join(map(str, numbers))} {'work' if len(numbers) > 1 else 'works'}"
