"""Run directories: WORKDIR/NAME/ holds all that a run leaves behind.

config.json        the resolved configuration it runs with
provenance.json    versions, revision, devices and command line of each start
metrics.jsonl      metrics, one chunk a line
tensorboard/       the same for TensorBoard
checkpoints/       the train state
replays/           games of the agent, as pages
evaluation.json    what the agent reached
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hackmatrix.errors import UserError
from hackmatrix.train.config import Config, ConfigError
from hackmatrix.train.config.rules import AUTO
from hackmatrix.train.config.saved import from_json, to_json
from hackmatrix.train.runs import atomic_files
from hackmatrix.train.runs.provenance import provenance

_CONFIG = "config.json"
_PROVENANCE = "provenance.json"
EVALUATION = "evaluation.json"
_PREFIX = "hackmatrix-jax"


class RunError(UserError):
    """A run that cannot be created or found; one line says why and what to do."""


@dataclass(frozen=True)
class Run:
    """A run directory, and the configuration saved in it."""

    directory: Path
    config: Config

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def metrics(self) -> Path:
        return self.directory / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        return self.directory / "tensorboard"

    @property
    def replays(self) -> Path:
        return self.directory / "replays"

    @property
    def evaluation(self) -> Path:
        return self.directory / EVALUATION

    @property
    def provenance(self) -> Path:
        return self.directory / _PROVENANCE

    @property
    def checkpoints(self) -> Path:
        return self.directory / self.config.checkpoint_dir


def create(workdir: str | Path, config: Config) -> Run:
    """A new run and its directory. Names never collide, also when several runs begin at once."""
    root = _local(workdir)
    name = config.run_name
    try:
        directory = _make(root, name) if name else _make_next(root, config.run_suffix)
        run = Run(directory, config)
        _write_down(run)
    except OSError as error:
        raise RunError(
            f"no run can be made in {root}: {_why(error)}; choose another --workdir"
        ) from error
    return run


def resume(run: Run, config: Config) -> Run:
    """Continues a run with this configuration, which is saved in place of the one it had."""
    continued = Run(run.directory, config)
    try:
        _write_down(continued)
    except OSError as error:
        raise RunError(f"the run {run.directory} cannot be written to: {_why(error)}") from error
    return continued


def find(workdir: str | Path, which: str, name: str | None = None) -> Run | None:
    """The run of that name or directory; for "auto" the one that was begun or saved last, and only
    the one of the name if one is given; None if there is none.

    RunError if a run that is asked for by its name does not exist.
    """
    root = _local(workdir)
    if which == AUTO:
        candidates = [each for each in _runs(root) if name in (None, each.name)]
        used = {each: when for each in candidates if (when := _used(each)) is not None}
        return _open(max(used, key=lambda each: used[each])) if used else None
    for directory in (root / which, Path(which)):
        if _is_run(directory):
            return _open(directory)
    newest = sorted(_runs(root), key=lambda each: each.stat().st_mtime)[-5:]
    there = f"; the newest are {', '.join(each.name for each in newest)}" if newest else ""
    raise RunError(f"there is no run {which!r} in {root}{there}")


def _local(workdir: str | Path) -> Path:
    if re.match(r"\w+:/", str(workdir)):
        raise RunError(f"workdir={workdir} is no local directory, which a run needs to append its metrics")
    return Path(workdir)


def _make(root: Path, name: str) -> Path:
    directory = root / name
    try:
        directory.mkdir(parents=True)
    except FileExistsError as error:
        raise RunError(
            f"{directory} exists already: choose another --config.run_name, or --resume={name}"
        ) from error
    return directory


def _make_next(root: Path, suffix: str | None) -> Path:
    """The first directory of the day that nobody has; mkdir lets only one process have it."""
    root.mkdir(parents=True, exist_ok=True)
    day = f"{_PREFIX}-{datetime.now():%y%m%d}-"
    taken = [re.match(rf"{day}(\d+)", each.name) for each in root.iterdir()]
    number = 1 + max((int(match[1]) for match in taken if match), default=0)
    while True:
        directory = root / f"{day}{number}{f'-{suffix}' if suffix else ''}"
        try:
            directory.mkdir()
            return directory
        except FileExistsError:
            number += 1


def _write_down(run: Run) -> None:
    """Saves what the run runs with from here on."""
    path = run.provenance
    starts = json.loads(path.read_text()) if path.exists() else []
    atomic_files.write(path, json.dumps([*starts, provenance()], indent=2) + "\n")
    atomic_files.write(run.directory / _CONFIG, to_json(run.config))


def _open(directory: Path) -> Run:
    try:
        return Run(directory, from_json((directory / _CONFIG).read_text()))
    except (OSError, ValueError, ConfigError) as error:
        why = "; ".join(str(error).splitlines())
        raise RunError(f"{directory / _CONFIG} cannot be read by this version: {why}") from error


def _runs(root: Path) -> list[Path]:
    return [each for each in root.iterdir() if _is_run(each)] if root.is_dir() else []


def _is_run(directory: Path) -> bool:
    return (directory / _CONFIG).is_file()


def _used(directory: Path) -> float | None:
    """When the run was begun, or its newest checkpoint written; the directory of a step is named by
    its number.
    """
    try:
        name = json.loads((directory / _CONFIG).read_text())["checkpoint_dir"]
    except (OSError, ValueError, KeyError):
        return None
    steps = [each for each in (directory / name).glob("*") if each.name.isdecimal()]
    return max(each.stat().st_mtime for each in (directory / _CONFIG, *steps))


def _why(error: OSError) -> str:
    return error.strerror or str(error)
