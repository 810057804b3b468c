"""The configuration of a run: every setting, resolved for the devices found, and checked.

Settings and their defaults are described in configs/default.py; validation.py has their rules and
autoscale.py the sizes that nobody gave. Nothing here needs JAX, so faults are reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from hackmatrix.train import autoscale, validation
from hackmatrix.train.validation import RULES, SIZES


class ConfigError(Exception):
    """All that is wrong with a configuration, one line each."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


# Settings that older runs were saved without, with values that go on with what such a run did.
_ADDED: Mapping[str, Any] = {
    "watchdog_minutes": 20.0,
    "replica_check_interval": 1000,
    "eval_episodes": 256,
}


@dataclass(frozen=True)
class Config:
    """Every setting of a run. configs/default.py says what each means; one that is new goes into
    _ADDED as well, so that older runs can still be resumed and looked at.
    """

    env: str
    seed: int
    auto_tune: bool
    num_envs: int
    num_steps: int
    total_timesteps: int
    time_limit_minutes: float | None
    num_minibatches: int
    update_epochs: int
    lr: float
    anneal_lr: bool
    gamma: float
    gae_lambda: float
    clip_eps: float
    vf_coef: float
    ent_coef: float
    max_grad_norm: float
    scale_returns: bool
    hidden_dim: int
    num_layers: int
    compute_dtype: str
    log_interval: int
    save_interval_minutes: float
    save_interval: int | None
    keep_checkpoints: int
    checkpoint_dir: str
    watchdog_minutes: float
    replica_check_interval: int
    eval_episodes: int
    run_name: str | None
    run_suffix: str | None
    resume: str | None
    rewind: bool
    wandb: bool
    project: str
    entity: str | None
    no_artifact: bool

    @property
    def batch_size(self) -> int:
        """Samples of an update."""
        return self.num_envs * self.num_steps

    @property
    def minibatch_size(self) -> int:
        return self.batch_size // self.num_minibatches

    @property
    def num_updates(self) -> int:
        return max(1, self.total_timesteps // self.batch_size)

    @property
    def gradient_steps(self) -> int:
        """Gradient steps of an update."""
        return self.num_minibatches * self.update_epochs

    @property
    def groups(self) -> int:
        """The groups that the environments form, however many devices there are."""
        return autoscale.groups(self.num_envs)


def resolve(raw: Mapping[str, Any], platform: str, devices: int) -> Config:
    """The configuration for so many devices of a platform ("cpu", "gpu" or "tpu").

    What was given is kept; sizes and the learning rate are filled in. ConfigError lists all faults.
    """
    values = dict(raw.items())
    faults = validation.faults_of_values(values)

    def are_sound(*names: str) -> bool:
        return not faults.keys() & set(names)

    if are_sound("save_interval", "log_interval"):
        faults |= validation.faults_of_intervals(values["save_interval"], values["log_interval"])
    if are_sound("auto_tune", *SIZES):
        values |= _sizes(values, platform, devices)
        faults |= validation.faults_of_sizes({name: values[name] for name in SIZES}, devices)
        if values.get("lr") is None:
            gradient_steps = values["num_minibatches"] * values["update_epochs"]
            values["lr"] = autoscale.learning_rate(gradient_steps)
    if faults:
        raise ConfigError(list(faults.values()))
    return Config(**{name: _of_kind(name, value) for name, value in values.items()})


def differences(config: Config, default: Config) -> list[str]:
    """The settings that are not what they would have been here by default, one line each."""
    before, after = asdict(default), asdict(config)
    return [
        f"{name} = {_literal(after[name])} (default: {_literal(before[name])})"
        for name in after
        if after[name] != before[name]
    ]


def summary(config: Config, platform: str, devices: int, parameters: int) -> list[str]:
    """What will run, for people to read before it does."""
    each = config.num_envs // devices
    epochs, steps = (
        _count(config.update_epochs, "epoch"),
        _count(config.gradient_steps, "gradient step"),
    )
    updates, limit = _count(config.num_updates, "update"), config.time_limit_minutes
    saving = (
        _count(config.save_interval, "update")
        if config.save_interval
        else _count(config.save_interval_minutes, "minute")
    )
    rows = {
        "devices": f"{devices} x {platform}",
        "environments": f"{config.num_envs:,} of {config.env}, {each:,} a device, "
        f"in {_count(config.groups, 'group')}",
        "batch": f"{config.num_envs:,} x {config.num_steps} = {config.batch_size:,} samples "
        "an update",
        "minibatches": f"{config.num_minibatches} of {config.minibatch_size:,}, {epochs}: {steps} "
        "an update",
        "learning rate": f"{config.lr:.3g}" + (", annealed to 0" if config.anneal_lr else ""),
        "network": f"{_count(config.num_layers, 'layer')} of {config.hidden_dim}, "
        f"{_count(parameters, 'parameter')}, products in {config.compute_dtype}",
        "length": f"{config.total_timesteps:,} steps = {updates}, in chunks of "
        f"{config.log_interval}" + (f"; at most {_count(limit, 'minute')}" if limit else ""),
        "checkpoints": f"every {saving}; the newest {config.keep_checkpoints} are kept",
    }
    return [f"{name:<15}{text}" for name, text in rows.items()]


def to_json(config: Config) -> str:
    return json.dumps(asdict(config), indent=2) + "\n"


def from_json(text: str) -> Config:
    """A resolved configuration, as `to_json` wrote it, perhaps before some settings were there."""
    values = {**_ADDED, **dict(json.loads(text))}
    if faults := validation.faults_of_values(values):
        raise ConfigError(list(faults.values()))
    return Config(**{field.name: values[field.name] for field in fields(Config)})


def _sizes(values: Mapping[str, Any], platform: str, devices: int) -> dict[str, int]:
    """The four sizes: those that were given, and the others to suit them."""
    num_envs, num_steps, num_minibatches, update_epochs = (values[name] for name in SIZES)
    tuned_envs, tuned_steps = autoscale.rollout(platform, devices, values["auto_tune"])
    num_envs, num_steps = num_envs or tuned_envs, num_steps or tuned_steps
    num_minibatches = num_minibatches or autoscale.minibatches(num_envs, num_steps)
    update_epochs = update_epochs or autoscale.epochs(num_envs, num_steps)
    return dict(zip(SIZES, (num_envs, num_steps, num_minibatches, update_epochs), strict=True))


def _literal(value: Any) -> str:
    return f"{value:_}" if type(value) is int else repr(value)


def _count(number: float, what: str) -> str:
    digits = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{digits} {what}" + ("" if number == 1 else "s")


def _of_kind(name: str, value: Any) -> Any:
    return value if value is None else RULES[name].kind(value)
