"""Describes a configuration in words: what will run, and how it differs from the defaults."""

from __future__ import annotations

from typing import Any

from hackmatrix.train.config import autoscale
from hackmatrix.train.config.settings import Config


def differences(config: Config, other: Config, called: str = "default") -> list[str]:
    """Returns a line for each setting that is not what it is in the other configuration."""
    before, after = other.settings(), config.settings()
    return [
        f"{name} = {_literal(after[name])}"
        + (f" ({called}: {_literal(before[name])})" if name in before else "")
        for name in after
        if name not in before or after[name] != before[name]
    ]


def summary(config: Config, platform: str, devices: int, parameters: int) -> list[str]:
    """Returns lines that describe what will run, to print before it does."""
    each = config.num_envs // devices
    epochs = with_unit(config.update_epochs, "epoch")
    steps = with_unit(config.gradient_steps, "gradient step")
    updates, limit = with_unit(config.num_updates, "update"), config.time_limit_minutes
    most = config.episode_limit
    limited = f", games of at most {with_unit(most, 'action')}" if most else ""
    kept = [f"the newest {config.keep_checkpoints}"]
    if measuring := config.eval_interval_minutes:
        games, every = with_unit(config.eval_games, "game"), with_unit(measuring, "minute")
        kept.append(f"the best by {games} every {every}")
    if config.keep_milestones:
        kept.append(f"up to {config.keep_milestones} over the run")
    saving = (
        with_unit(config.save_interval, "update")
        if config.save_interval
        else with_unit(config.save_interval_minutes, "minute")
    )
    rows = {
        "devices": f"{devices} x {platform}",
        "environments": f"{config.num_envs:,} of {config.env}, {each:,} per device, "
        f"in {with_unit(config.groups, 'group')}{limited}",
        "algorithm": config.algorithm
        + (", whose search plays the games of training" if config.algorithm == "expert" else ""),
        "batch": f"{config.num_envs:,} x {config.num_steps} = {config.batch_size:,} samples "
        "per update",
        "minibatches": f"{config.num_minibatches} of {config.minibatch_size:,}, {epochs}: {steps} "
        "per update",
        "learning rate": _learning_rate(config),
        "network": f"{config.network}, {with_unit(config.num_layers, 'layer')}, "
        f"{config.hidden_dim} features, {with_unit(parameters, 'parameter')}, "
        f"matrix products in {config.compute_dtype}",
        "length": f"{config.total_timesteps:,} steps = {updates}, in chunks of "
        f"{config.log_interval}" + (f"; at most {with_unit(limit, 'minute')}" if limit else ""),
        "checkpoints": f"every {saving}",
        "checkpoints kept": "; ".join(kept),
    }
    return [f"{name:<18}{text}" for name, text in rows.items()]


def _learning_rate(config: Config) -> str:
    """Names files with better rates beside the one that is chosen by default, with which agents of
    HackMatrix learn little (docs/experiments.md).
    """
    if config.anneal_lr:
        return f"{config.lr:.3g}, annealed to 0"
    is_chosen = config.lr == autoscale.learning_rate(config.gradient_steps)
    if not (is_chosen and (config.env, config.algorithm) == ("hackmatrix", "ppo")):
        return f"{config.lr:.3g}"
    files = "--config=configs/recipe.py (v4_8.py, gpu.py)"
    return f"{config.lr:.3g}; with {files} agents learn more"


def time_is_up(config: Config, steps: int) -> str:
    """Returns the message for a run that its time limit ends after this many steps; if the learning
    rate is annealed, it says how far it had fallen.
    """
    told = f"The time limit is reached: time_limit_minutes={config.time_limit_minutes:g}"
    if not config.anneal_lr:
        return told
    return (
        f"{told}; the learning rate, which falls to 0 over total_timesteps, was still at "
        f"{1 - steps / config.total_timesteps:.0%} of lr: with --config.total_timesteps={steps} it "
        "would fall to 0 in this time"
    )


def too_large(config: Config) -> str:
    """Returns the message for a run that needs more memory than there is."""
    return (
        f"updates of {config.num_envs} environments x {config.num_steps} steps, evaluations of "
        f"{config.eval_games} games, or a network of {config.hidden_dim} features do not fit in "
        "memory; lower --config.num_envs or --config.num_steps, --config.eval_games, or "
        "--config.hidden_dim"
    )


def _literal(value: Any) -> str:
    return f"{value:_}" if type(value) is int else repr(value)


def with_unit(number: float, what: str) -> str:
    """Returns a number with its unit, in the plural if need be: "1 game", "2 games"."""
    digits = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{digits} {what}" + ("" if number == 1 else "s")
