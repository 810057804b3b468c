"""Run directories: WORKDIR/NAME/ holds all that a run leaves behind.

config.json        the resolved configuration it runs with
provenance.json    versions, revision, devices and command line of each start
owner/             who trains it
metrics.jsonl      metrics, one chunk a line
tensorboard/       the same for TensorBoard
checkpoints/       the train state
replays/           games of the agent, as pages
evaluation.json    what the agent reached
exported/          its policy for other programs, where somebody asked for it; also exported-best/

WORKDIR is a directory on a disk, or one in a bucket. A run in a bucket has its checkpoints there;
all other files are written to a directory of this machine, and copied as they grow (mirror.py).
"""

from __future__ import annotations

import atexit
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hackmatrix.errors import UserError
from hackmatrix.networks.files import EXPORTED, shipped_as
from hackmatrix.train.config import Config
from hackmatrix.train.config.rules import AUTO
from hackmatrix.train.config.saved import from_json, to_json
from hackmatrix.train.runs import copies
from hackmatrix.train.runs.bucket import Bucket
from hackmatrix.train.runs.lease import OWNER
from hackmatrix.train.runs.places import Disk, place, without_alias
from hackmatrix.train.runs.protocol import WHOLE, Place, Unavailable, is_step
from hackmatrix.train.runs.provenance import provenance

_CONFIG = "config.json"
_PROVENANCE = "provenance.json"
EVALUATION = "evaluation.json"
_PREFIX = "hackmatrix-jax"
# What is in a directory in which no run has begun, as its process was killed too soon.
_BEFORE_IT_BEGAN = {OWNER, "config.new", _PROVENANCE, "provenance.new"}


@dataclass(frozen=True)
class Run:
    """A run, and the configuration saved in it. `directory` is on this machine's disk: where the
    run lives, or of a run in a bucket the directory whose files are copied there.
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
    def provenance(self) -> Path:
        return self.directory / _PROVENANCE

    @property
    def checkpoints(self) -> Place:
        return self.place / self.config.checkpoint_dir

    def lasting(self, file: Path) -> Place:
        """Where a file of the directory is found later."""
        return self.place / str(file.relative_to(self.directory))


def create(
    workdir: str | Path | Place, config: Config, hold: Callable[[Run], None] = lambda run: None
) -> Run:
    """A new run and its directory. Names never collide, also when several runs begin at once.

    `hold` is called before anything is written: a directory of that name in which no run has begun,
    as its process was killed too soon, may be found by several.
    """
    root, name = place(workdir), config.run_name
    with _one_line(f"no run can be made in {root}", "; choose another --workdir"):
        made = _make(root, name) if name else _make_next(root, config.run_suffix)
        run = _run(made, config)
        hold(run)
        must_be_free(made)  # whoever held it before may have begun it
        run.directory.mkdir(parents=True, exist_ok=True)
    write_down(run)
    return run


def resume(run: Run, config: Config) -> Run:
    """The run with this configuration, and its files here. The one that it had stays saved until
    this is written down.
    """
    if run.bucket:
        copies.remove_left(run.name)  # nobody else trains it
    with _one_line(f"the run {run.place} cannot be read"):
        _fetch(run)
    return Run(run.directory, config, run.bucket)


def write_down(run: Run) -> None:
    """Saves what the run runs with from here on."""
    with _one_line(f"the run {run.place} cannot be written to"):
        starts = json.dumps([*_starts(run), provenance()], indent=2) + "\n"
        for there in {run.place, place(run.directory)}:
            (there / _CONFIG).write(to_json(run.config))
            (there / _PROVENANCE).write(starts)


def changes(run: Run) -> dict[str, Any]:
    """The settings of this run that are not those written down."""
    saved = from_json((run.place / _CONFIG).read()).settings()
    return {name: value for name, value in run.config.settings().items() if saved[name] != value}


def has_learned(run: Run) -> bool:
    """Whether there is anything to see of a run: metrics, or a checkpoint."""
    has_metrics = run.metrics.exists() and run.metrics.stat().st_size > 0
    return has_metrics or has_checkpoint(run)


def discard(run: Run) -> None:
    """Removes a run that has saved nothing; one with a checkpoint stays."""
    if has_checkpoint(run):
        return
    run.place.remove()
    if run.bucket:
        shutil.rmtree(run.directory, ignore_errors=True)


def has_checkpoint(run: Run) -> bool:
    return any(map(is_step, run.checkpoints.names()))


def read_all(run: Run) -> Run:
    """The run with all its files on this machine, until the program ends."""
    if run.bucket:
        with _one_line(f"the run {run.place} cannot be read"):
            _fetch(run)
        atexit.register(shutil.rmtree, run.directory, ignore_errors=True)
    return run


def find(
    workdir: str | Path | Place, which: str, name: str | None = None, *, or_agent: bool = False
) -> Run | None:
    """The run of that name or directory; for "auto" the one that was begun or saved last, and only
    the one of the name if one is given; None if there is none.

    UserError if no run has the name that is asked for. Say `or_agent` where an agent would do, too.
    """
    root = place(workdir)
    with _one_line(f"{root} cannot be read"):
        if which == AUTO:
            used = {each: when for each in _runs(root, name) if (when := _used(each)) is not None}
            return _open(max(used, key=lambda each: used[each])) if used else None
        places = [*([] if "://" in which else [root / which]), place(which)]
        for there in places:
            if is_run(there):
                return _open(there)
        lacking = next((_lacking(each) for each in places if each.names()), "")
        runs = [each.name for each in sorted(_runs(root), key=_begun)]
    seeds = [each for each in runs if re.fullmatch(rf"{re.escape(which)}-seed\d+", each)]
    told = ("its seeds", seeds) if seeds else ("the newest", runs[-5:])
    others = f"; {told[0]} are {', '.join(told[1])}" if runs else ""
    agent = shipped_as(which, needs_run=not or_agent)
    raise UserError(f"there is no run {which!r} in {root}{lacking}{agent or others}")


def _lacking(there: Place) -> str:
    """Why this directory is no run."""
    if EXPORTED in there.names():
        return f": {there} is a policy that was exported, as --policy takes it"
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
    """UserError if something other than the beginning of a run is there."""
    if set(there.names()) - _BEFORE_IT_BEGAN:
        raise UserError(
            f"{there} exists already: choose another --config.run_name, or --resume={there.name}"
        )


def _make_next(root: Place, suffix: str | None) -> Place:
    """The first directory of the day that nobody has."""
    day = f"{_PREFIX}-{datetime.now():%y%m%d}-"
    taken = [re.match(rf"{day}(\d+)", name) for name in root.names()]
    number = 1 + max((int(match[1]) for match in taken if match), default=0)
    while not (made := root / f"{day}{number}{f'-{suffix}' if suffix else ''}").claim():
        number += 1
    return made


def _fetch(run: Run) -> None:
    if isinstance(there := run.place, Bucket):
        run.directory.mkdir(parents=True, exist_ok=True)
        there.fetch_files(run.directory)


def _starts(run: Run) -> list[Any]:
    """The provenance of each start so far."""
    try:
        return [*json.loads((run.place / _PROVENANCE).read())]
    except (FileNotFoundError, ValueError, TypeError):  # that a machine without power may leave
        return []


def _open(there: Place) -> Run:
    try:
        return _run(there, from_json((there / _CONFIG).read()))
    except Unavailable:
        raise
    except (OSError, ValueError) as error:
        why = "; ".join(str(error).splitlines())
        raise UserError(f"{there / _CONFIG} cannot be read: {why}") from error


def _runs(root: Place, called: str | None = None) -> list[Place]:
    """Those that can be looked at: a disk has directories of others, such as lost+found."""
    found = []
    for name in [each for each in root.names() if called in (None, each)]:
        with suppress(PermissionError):
            if is_run(there := root / name) and without_alias(there) == there:
                found.append(there)
    return found


def is_run(there: Place) -> bool:
    """Whether a run has begun there."""
    return (there / _CONFIG).exists()


def _begun(there: Place) -> float:
    return (there / _CONFIG).changed_at()


def _used(there: Place) -> float | None:
    """When the run was begun, or its newest checkpoint written; the directory of a step is named by
    its number.
    """
    try:
        saved = there / json.loads((there / _CONFIG).read())["checkpoint_dir"]
    except Unavailable:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return None
    marks = [saved / name / WHOLE for name in saved.names() if is_step(name)]
    return max([_begun(there), *(each.changed_at() for each in marks if each.exists())])


@contextmanager
def _one_line(what: str, hint: str = "") -> Iterator[None]:
    try:
        yield
    except Unavailable:  # which is no mistake of a person
        raise
    except OSError as error:
        raise UserError(f"{what}: {error.strerror or error}{hint}") from error
