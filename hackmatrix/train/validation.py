"""What each setting may be, and everything that is wrong with a configuration, at once.

A fault is one line: the setting, its value, and what it must be.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hackmatrix.train import autoscale

Faults = dict[str, str]  # by setting

SIZES = ("num_envs", "num_steps", "num_minibatches", "update_epochs")
AUTO = "auto"  # resume=auto
MOST_SAMPLES = 2**31  # 32-bit numbers count the samples of an update


@dataclass(frozen=True)
class Rule:
    """The type of a setting and what its values have to be, for the program and in words."""

    kind: type
    holds: Callable[[Any], bool]
    must_be: str
    is_optional: bool = False

    def allows(self, value: Any) -> bool:
        if value is None:
            return self.is_optional
        is_of_kind = type(value) is self.kind or (self.kind is float and type(value) is int)
        return is_of_kind and self.holds(value)


def optional(rule: Rule) -> Rule:
    return replace(rule, is_optional=True)


FLAG = Rule(bool, lambda value: True, "True or False")
COUNT = Rule(int, lambda value: value >= 1, "a whole number from 1")
POSITIVE = Rule(float, lambda value: 0 < value < math.inf, "a number above 0")
WEIGHT = Rule(float, lambda value: 0 <= value < math.inf, "a number from 0")
DISCOUNT = Rule(float, lambda value: 0 <= value <= 1, "a number from 0 to 1")
NAME = Rule(
    str,
    lambda value: re.fullmatch(r"\w[\w.-]*", value, re.ASCII) is not None,
    "a name of letters, digits, dots, dashes and underscores",
)
RUN_NAME = Rule(
    str,
    lambda value: NAME.holds(value) and value != AUTO,
    f'{NAME.must_be}, and not "{AUTO}"',
)
TEXT = Rule(str, lambda value: value.strip() != "", "some text")

RULES: dict[str, Rule] = {
    "env": Rule(
        str,
        lambda value: value == "hackmatrix" or re.fullmatch(r"gymnax:\S+", value) is not None,
        '"hackmatrix", or "gymnax:NAME" such as "gymnax:CartPole-v1"',
    ),
    "seed": Rule(int, lambda value: 0 <= value < 2**32, "a whole number from 0 to 4294967295"),
    "auto_tune": FLAG,
    "num_envs": optional(COUNT),
    "num_steps": optional(COUNT),
    "total_timesteps": COUNT,
    "time_limit_minutes": optional(POSITIVE),
    "num_minibatches": optional(COUNT),
    "update_epochs": optional(COUNT),
    "lr": optional(POSITIVE),
    "anneal_lr": FLAG,
    "gamma": DISCOUNT,
    "gae_lambda": DISCOUNT,
    "clip_eps": Rule(float, lambda value: 0 < value < 1, "a number between 0 and 1"),
    "vf_coef": WEIGHT,
    "ent_coef": WEIGHT,
    "max_grad_norm": POSITIVE,
    "scale_returns": FLAG,
    "hidden_dim": COUNT,
    "num_layers": COUNT,
    "compute_dtype": Rule(
        str, lambda value: value in ("float32", "bfloat16"), '"float32" or "bfloat16"'
    ),
    "log_interval": COUNT,
    "save_interval_minutes": POSITIVE,
    "save_interval": optional(COUNT),
    "keep_checkpoints": COUNT,
    "checkpoint_dir": NAME,
    "watchdog_minutes": POSITIVE,
    "replica_check_interval": COUNT,
    "eval_episodes": Rule(int, lambda value: value >= 0, "a whole number from 0"),
    "run_name": optional(RUN_NAME),
    "run_suffix": optional(NAME),
    "resume": optional(TEXT),
    "rewind": FLAG,
    "wandb": FLAG,
    "project": TEXT,
    "entity": optional(TEXT),
    "no_artifact": FLAG,
}


def faults_of_values(values: Mapping[str, Any]) -> Faults:
    """What is wrong with single settings: unknown, missing, or not what they must be."""
    strange = {name: unknown(name) for name in values if name not in RULES}
    missing = {
        name: f"{name} is missing: begin the configuration with configs.default.get_config()"
        for name in RULES
        if name not in values
    }
    wrong = {
        name: _fault(name, values[name], f"must be {RULES[name].must_be}")
        for name in RULES
        if name in values and not RULES[name].allows(values[name])
    }
    return {**strange, **missing, **wrong}


def unknown(name: str) -> str:
    near = difflib.get_close_matches(name, RULES, n=1)
    advice = f"did you mean {near[0]}?" if near else "configs/default.py has them all"
    return f"{name} is no setting: {advice}"


def faults_of_intervals(save_interval: int | None, log_interval: int) -> Faults:
    if save_interval is None or save_interval % log_interval == 0:
        return {}
    below = save_interval // log_interval * log_interval
    nearest = [each for each in (below, below + log_interval) if each > 0]
    advice = f"updates come in chunks of log_interval={log_interval}; {_they_work(nearest)}"
    return {"save_interval": _fault("save_interval", save_interval, advice)}


def faults_of_sizes(sizes: Mapping[str, int], devices: int) -> Faults:
    """What is wrong with the four sizes together, once all of them are known."""
    num_envs, num_steps, num_minibatches, _ = (sizes[name] for name in SIZES)
    if devices > autoscale.MOST_GROUPS:
        advice = f"runs on at most {autoscale.MOST_GROUPS} devices, and here are {devices}"
        return {"num_envs": _fault("num_envs", num_envs, advice)}
    if num_envs * num_steps >= MOST_SAMPLES:
        advice = f"an update of {num_envs} x num_steps={num_steps} samples is too large to count"
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
        advice = f"cannot share the {samples} samples of a group of environments equally"
        faults["num_minibatches"] = _fault(
            "num_minibatches", num_minibatches, f"{advice}; {_they_work(nearest)}"
        )
    return faults


def _fault(name: str, value: Any, text: str) -> str:
    return f"{name}={value!r} {text}"


def _they_work(numbers: Sequence[int]) -> str:
    return f"{' and '.join(map(str, numbers))} {'work' if len(numbers) > 1 else 'works'}"
