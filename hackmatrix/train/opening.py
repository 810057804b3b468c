"""Which run a session is of, and with what configuration. All processes find the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from hackmatrix.envs import NoSuchEnvironment, make
from hackmatrix.parallel.agreement import first, together
from hackmatrix.train import configuring, run, sameness, tracing, weights_and_biases
from hackmatrix.train.config import Config, ConfigError, resolve
from hackmatrix.train.run import Run, RunError
from hackmatrix.train.tracing import Span


def opened(
    raw: Mapping[str, Any], overrides: Mapping[str, Any], workdir: Path, traced: Span | None
) -> tuple[Run, bool]:
    """The run, whose directory is there, and whether it goes on. The first process decides which
    run it is, also where a supervisor has told only some of them to resume.
    """
    which = first(raw["resume"])
    found = _found(workdir, which, raw["run_name"]) if which else None
    given = {**raw, "resume": which}
    if found:
        given = configuring.resumed(found.config, {**overrides, "resume": which})
    config = together(
        lambda: resolve(given, jax.default_backend(), jax.device_count()), ConfigError
    )
    sameness.compare_settings(config)
    tracing.check(traced, config.num_updates)
    # What may be missing is asked for before a directory is made.
    together(lambda: make(config.env), NoSuchEnvironment)
    if config.wandb:
        together(lambda: weights_and_biases.check() if _is_first() else None, ConfigError)
    return (_resumed(found, config), True) if found else (_begun(workdir, config), False)


def _found(workdir: Path, which: str, name: str | None) -> Run | None:
    """The first process looks for it; the others open what it has found."""
    found = together(lambda: run.find(workdir, which, name) if _is_first() else None, RunError)
    directory = first(str(found.directory) if found else None)
    if directory is None:
        return None
    return together(lambda: found or run.find(workdir, directory), RunError)


def _resumed(found: Run, config: Config) -> Run:
    return together(lambda: run.resume(found, config, writes=_is_first()), RunError)


def _begun(workdir: Path, config: Config) -> Run:
    made = together(lambda: run.begin(workdir, config) if _is_first() else None, RunError)
    name = first(made.name if made else None)
    return made or run.begin(workdir, config, name=name, writes=False)


def _is_first() -> bool:
    return jax.process_index() == 0
