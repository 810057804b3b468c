"""Run directories: WORKDIR/NAME/ holds everything that a run produces.

config.json        the resolved configuration it runs with
provenance.json    versions, revision, devices and command line of each start
owner/             the lease: which process trains it
metrics.jsonl      metrics, one chunk a line
tensorboard/       the same metrics for TensorBoard
checkpoints/       the train state
replays/           games of the agent, as pages
evaluation.json    the result of the final evaluation
exported/          the policy for other programs, if it was exported; also exported-best/

WORKDIR is on a disk or in a bucket. A run in a bucket writes its checkpoints there; all other files
are written to a local directory, and copied to the bucket as they grow (mirror.py).
"""

from __future__ import annotations

import atexit
import json
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hackmatrix.errors import UserError
from hackmatrix.networks.files import EXPORTED, shipped_as
from hackmatrix.train.config import Config
from hackmatrix.train.config.rules import AUTO
from hackmatrix.train.config.saved import checkpoint_dir, from_json, to_json
from hackmatrix.train.runs import copies
from hackmatrix.train.runs.lease import OWNER
from hackmatrix.train.runs.places import Disk, place, without_alias
from hackmatrix.train.runs.protocol import WHOLE, Place, asked, one_line_errors, steps_in
from hackmatrix.train.runs.provenance import provenance
from hackmatrix.whole_files import parsed

_CONFIG = "config.json"
_PROVENANCE = "provenance.json"
EVALUATION = "evaluation.json"
_PREFIX = "hackmatrix-jax"
# What may be in the directory of a process that was killed before its run began.
_BEFORE_IT_BEGAN = {OWNER, "config.new", _PROVENANCE, "provenance.new"}


@dataclass(frozen=True)
class Run:
    """A run and its configuration. `directory` is on this machine's disk: where the run lives, or
    for a run in a bucket, the local directory whose files are copied to the bucket.
    """

    directory: Path
    config: Config
    bucket: str | None = None

    @property
    def place(self) -> Place:
        """Where the run lives."""
        return place(self.bucket or self.directory)

    @property
    def name(self) -> str:
        return self.place.name

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
    def checkpoints(self) -> Place:
        return self.place / self.config.checkpoint_dir

    def lasting(self, file: Path) -> Place:
        """Returns where a file of `directory` remains: in the bucket, if the run lives in one."""
        return self.place / str(file.relative_to(self.directory))


def create(
    workdir: str | Path | Place, config: Config, hold: Callable[[Run], None] = lambda run: None
) -> Run:
    """Creates a run and its directory. Names never collide, even if several runs begin at once.

    `hold` is called before anything is written, to take the lease: several processes may find the
    same directory that a process left behind when it was killed before its run began.
    """
    root, name = place(workdir), config.run_name
    with one_line_errors(f"cannot create a run in {root}", "; choose another --workdir"):
        made = _make(root, name) if name else _make_next(root, config.run_suffix)
        run = _run(made, config)
        hold(run)
        must_be_free(made)  # the previous holder may have begun a run there
        run.directory.mkdir(parents=True, exist_ok=True)
    write_down(run)
    return run


def resume(run: Run, config: Config) -> Run:
    """Returns the run with this configuration, after copying its files to this machine. The old
    configuration stays saved until `write_down`.
    """
    if run.bucket:
        copies.remove_left(run.name)  # we hold the lease, so no other process uses them
        copies.fetch(run.bucket, run.directory)
    return Run(run.directory, config, run.bucket)


def write_down(run: Run) -> None:
    """Saves the configuration and the provenance of this start."""
    with one_line_errors(f"the run {run.place} cannot be written to"):
        starts_so_far = json.dumps([*starts(run), provenance(run.config)], indent=2) + "\n"
        for there in {run.place, place(run.directory)}:
            (there / _CONFIG).write(to_json(run.config))
            (there / _PROVENANCE).write(starts_so_far)


def saved(run: Run) -> Config:
    """Returns the configuration in the run's directory, which `write_down` replaces."""
    return _of_config(run.place, from_json)


def has_learned(run: Run) -> bool:
    """Whether the run has any metrics or a checkpoint."""
    has_metrics = run.metrics.exists() and run.metrics.stat().st_size > 0
    return has_metrics or has_checkpoint(run)


def discard(run: Run) -> None:
    """Removes a run, unless it has a checkpoint."""
    if has_checkpoint(run):
        return
    run.place.remove()
    if run.bucket:
        shutil.rmtree(run.directory, ignore_errors=True)


def has_checkpoint(run: Run) -> bool:
    return bool(steps_in(run.checkpoints))


def with_local_files(run: Run) -> Run:
    """Returns the run with its files on this machine; copies from a bucket are deleted at exit."""
    if run.bucket:
        atexit.register(shutil.rmtree, run.directory, ignore_errors=True)
        copies.fetch(run.bucket, run.directory)
    return run


def find(
    workdir: str | Path | Place, which: str, name: str | None = None, *, or_agent: bool = False
) -> Run | None:
    """Returns the run with this name or directory. "auto" returns the run that was begun or saved
    last, restricted to `name` if given, or None if there is no such run.

    Raises UserError if no run has the name. `or_agent`: the caller accepts a shipped agent, too.
    """
    root = place(workdir)
    if which == AUTO:
        with one_line_errors(f"{root} cannot be read"):
            return _latest(root, name)
    places = [root / which, place(which)]
    if "://" in which or Path(which).expanduser().is_absolute():  # whatever the workdir is
        root, which, places = places[1].parent, places[1].name, places[1:]
    with one_line_errors(f"{root / which} cannot be read"):
        if found := next(filter(is_run, places), None):
            return _open(found)
        lacking = next((_lacking(each) for each in places if each.names()), "")
        runs = [each.name for each in sorted(_runs(root), key=_begun)]
    seeds = [each for each in runs if re.fullmatch(rf"{re.escape(which)}-seed\d+", each)]
    told = ("its seeds", seeds) if seeds else ("the newest", runs[-5:])
    others = f"; {told[0]} are {', '.join(told[1])}" if runs else ""
    agent = shipped_as(which, needs_run=not or_agent)
    raise UserError(f"there is no run {which!r} in {root}{lacking}{agent or others}")


def _lacking(there: Place) -> str:
    """Returns why this directory is not a run, for an error message."""
    if EXPORTED in there.names():
        return f": {there} is an exported policy; use it with --policy"
    return f": {there} has no {_CONFIG}"


def _run(there: Place, config: Config) -> Run:
    if isinstance(there := without_alias(there), Disk):
        return Run(there.path, config)
    return Run(copies.new(there.name), config, str(there))


def _make(root: Place, name: str) -> Place:
    if not (root / name).claim():
        must_be_free(root / name)
    return root / name


def must_be_free(there: Place) -> None:
    """Raises UserError if the directory holds more than the beginning of a run."""
    if set(there.names()) - _BEFORE_IT_BEGAN:
        left = f"remove what is left there: it has no {_CONFIG}, so it is no run"
        instead = f"resume it with --resume={there.name}" if is_run(there) else left
        raise UserError(f"{there} already exists: choose another --config.run_name, or {instead}")


def _make_next(root: Place, suffix: str | None) -> Place:
    """Creates a directory named after today, with the next free number."""
    day = f"{_PREFIX}-{datetime.now():%y%m%d}-"
    taken = [re.match(rf"{day}(\d+)", name) for name in root.names()]
    number = 1 + max((int(match[1]) for match in taken if match), default=0)
    while not (made := root / f"{day}{number}{f'-{suffix}' if suffix else ''}").claim():
        number += 1
    return made


def starts(run: Run) -> list[dict[str, Any]]:
    """Returns the provenance of each start so far."""
    file = run.place / _PROVENANCE
    with one_line_errors(f"{file} cannot be read"):
        try:
            return [each for each in parsed(file.read(), list) if isinstance(each, dict)]
        except (FileNotFoundError, ValueError):  # damaged, as after a power cut
            return []


def _open(there: Place) -> Run:
    return _run(there, _of_config(there, from_json))


def _of_config(there: Place, read: Callable[[str], Any]) -> Any:
    """Reads something from the configuration of a run; a UserError in one line if it is damaged."""
    with one_line_errors(f"{there / _CONFIG} cannot be read"):
        try:
            return read((there / _CONFIG).read())
        except ValueError as error:
            raise OSError("; ".join(str(error).splitlines())) from error


def _runs(root: Place, called: str | None = None) -> list[Place]:
    """Returns the runs in `root`, or only the one that is `called` so; aliases do not count."""

    def is_one(there: Place) -> bool:
        with suppress(PermissionError):  # such as for lost+found
            return is_run(there) and without_alias(there) == there
        return False

    places = [root / name for name in root.names() if called in (None, name)]
    return [there for there, is_found in asked(is_one, places).items() if is_found]


def is_run(there: Place) -> bool:
    """Whether a run has begun there."""
    return (there / _CONFIG).exists()


def _begun(there: Place) -> float:
    return (there / _CONFIG).changed_at()


def _latest(root: Place, name: str | None) -> Run | None:
    found = _runs(root, name)
    if name is None:
        told = asked(_used, found)
        used = {there: each for there, each in told.items() if isinstance(each, float)}
        damaged = [each for each in told.values() if isinstance(each, UserError)]
        if damaged and not used:  # else a new run would begin instead
            raise UserError(f"{damaged[0]}; move its directory away, or leave out --resume")
        for error in damaged:
            with suppress(OSError):
                print(f"leaving out a run: {error}", file=sys.stderr, flush=True)
        found = sorted(used, key=lambda each: used[each])[-1:]
    return _open(found[0]) if found else None


def _used(there: Place) -> float | UserError | None:
    """Returns when the run was begun or its newest checkpoint written; an error if it is damaged;
    None if it is another program's. Checkpoints above the step of a rewind have been put aside.
    """
    try:
        saved = there / _of_config(there, checkpoint_dir)
        marks = (saved / str(step) / WHOLE for step in reversed(steps_in(saved)))
        return max(_begun(there), next((each.changed_at() for each in marks if each.exists()), 0.0))
    except KeyError:
        return None
    except UserError as error:
        return error if is_run(there) else None  # it may have been removed meanwhile
