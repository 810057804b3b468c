"""Resolves the settings that a user gave into the configuration of a run.

Nothing here needs JAX, unless the user's own algorithm does, so faults are reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, replace
from typing import Any

from hackmatrix import plugins
from hackmatrix.errors import UserError
from hackmatrix.train.config import autoscale, faults
from hackmatrix.train.config.faults import SIZES
from hackmatrix.train.config.rules import ALGORITHMS
from hackmatrix.train.config.settings import Config, declared

CHOOSABLE = (*SIZES, "lr")  # chosen for the devices if not given
_KINDS = bool, int, float, str  # which JSON saves and loads unchanged


def resolve(raw: Mapping[str, Any], platform: str, devices: int) -> Config:
    """Returns the configuration for a number of devices of a platform ("cpu", "gpu" or "tpu").

    Given settings stay; missing sizes and the learning rate are chosen. Raises a UserError that
    lists all faults.
    """
    kind = config_class(raw.get("algorithm"))
    values = {**_own_defaults(kind), **raw}
    if of_class := _faults_of_class(kind):  # its values may have types that no rule can check
        raise UserError("\n".join(of_class.values()))
    found = faults.of_values(values, kind)
    chosen = tuple(name for name in CHOOSABLE if values.get(name) is None)

    def are_sound(*names: str) -> bool:
        return not found.keys() & set(names)

    if are_sound("save_interval", "log_interval"):
        found |= faults.of_intervals(values["save_interval"], values["log_interval"])
    if are_sound("auto_tune", *SIZES):
        values |= _sizes(values, platform, devices)
        found |= faults.of_sizes({name: values[name] for name in SIZES}, devices)
        if are_sound("total_timesteps"):
            batch_size = values["num_envs"] * values["num_steps"]
            found |= faults.of_length(values["total_timesteps"], batch_size)
        if values.get("lr") is None:
            gradient_steps = values["num_minibatches"] * values["update_epochs"]
            values["lr"] = autoscale.learning_rate(gradient_steps)
    if found:
        raise UserError("\n".join(found.values()))
    return replace(made(kind, values), chosen=chosen)


def config_class(algorithm: Any) -> type[Config]:
    """Returns the configuration class of an algorithm: Config, or a subclass with more settings."""
    is_ours = not isinstance(algorithm, str) or algorithm in ALGORITHMS
    if is_ours or not plugins.is_address(algorithm):
        return Config
    if plugins.arguments(algorithm):
        raise UserError(
            f"algorithm={algorithm}: an algorithm has no arguments but settings of its own, which "
            "its config_class declares"
        )
    kind = getattr(plugins.load(algorithm), "config_class", Config)
    if not (isinstance(kind, type) and issubclass(kind, Config)):
        must_be = "its config_class must be a subclass of hackmatrix.train.config.Config"
        raise UserError(f"algorithm={algorithm}: {must_be}")
    return kind


def _faults_of_class(kind: type[Config]) -> faults.Faults:
    """Returns the faults in how an algorithm's own class declares its settings."""
    of_kind = declared(kind)
    own = {each.name for each in fields(kind) if each.init}
    own -= {each.name for each in fields(Config)}
    undeclared = {
        name: f"{name} is not a setting: {kind.__name__} has to declare it, as "
        "`setting(0.5, WEIGHT, since=2)`"
        for name in sorted(own - of_kind.keys())
    }
    lost = {
        name: f"{name} is not a setting: {each.__name__} lacks @dataclass(frozen=True)"
        for each in kind.__mro__
        for name, value in vars(each).items()
        if isinstance(value, Field)
    }
    of_other_kinds = {
        name: f"{name} has type {getattr(setting.kind, '__name__', setting.kind)}: a setting must "
        "be a bool, an int, a float or a str, or one of these or None, such as `float | None`"
        for name, setting in of_kind.items()
        if setting.kind not in _KINDS
    }
    changed = {
        name: f"{name} is a setting of the trainer, whose default {kind.__name__} cannot change"
        for name, setting in declared(Config).items()
        if name not in of_kind or of_kind[name].default != setting.default
    }
    taken = {
        name: f"{name} cannot be a setting of {kind.__name__}, as {Config.__name__} has an "
        "attribute of that name: rename it"
        for name in of_kind
        if name not in declared(Config) and (hasattr(Config, name) or name == "chosen")
    }
    return {**undeclared, **lost, **of_other_kinds, **changed, **taken}


def made(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """Makes a configuration from valid values."""
    given: dict[str, Any] = {
        name: value if (value := values[name]) is None else setting.kind(value)
        for name, setting in declared(kind).items()
    }
    return kind(**given)


def _own_defaults(kind: type[Config]) -> dict[str, Any]:
    """Returns the defaults of an algorithm's own settings, which configs/default.py lacks."""
    usual = declared(Config)
    return {name: each.default for name, each in declared(kind).items() if name not in usual}


def _sizes(values: Mapping[str, Any], platform: str, devices: int) -> dict[str, int]:
    """Returns the four sizes: those that were given, and values for the others to suit them."""
    num_envs, num_steps, num_minibatches, update_epochs = (values[name] for name in SIZES)
    tuned_envs, tuned_steps = autoscale.rollout(platform, devices, values["auto_tune"])
    num_envs, num_steps = num_envs or tuned_envs, num_steps or tuned_steps
    num_minibatches = num_minibatches or autoscale.minibatches(num_envs, num_steps)
    update_epochs = update_epochs or autoscale.epochs(num_envs, num_steps)
    return dict(zip(SIZES, (num_envs, num_steps, num_minibatches, update_epochs), strict=True))
