"""Checkpoints: the train state on disk, committed atomically and verified by digests when restored.

    STEP/                 a committed checkpoint; STEP counts environment steps
        state/            the arrays, as orbax writes them
        record/metadata   the manifest: shapes, types and digests of the arrays, and the run's own
        inventory.json    the files and their hashes, to notice any change to them
    STEP.aside-N          a damaged checkpoint, or one later than the step the run was rewound to

All processes of a run call everything here together, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath

from hackmatrix import streams
from hackmatrix.compile_cache.programs import CachedJit
from hackmatrix.errors import UserError
from hackmatrix.parallel.agreement import BrokenBarrier, gather, is_first
from hackmatrix.train.checkpoints import inventory, scores, shelf
from hackmatrix.train.checkpoints.collective_reads import Damaged, read_on_all, read_on_first
from hackmatrix.train.checkpoints.digest import digest
from hackmatrix.train.checkpoints.manifest import Manifest, read, seal
from hackmatrix.train.checkpoints.named_arrays import described, mismatches, named
from hackmatrix.train.checkpoints.saving import STATE, Saving, one_line, silence_orbax
from hackmatrix.train.checkpoints.scores import Best
from hackmatrix.train.runs.places import Disk, place
from hackmatrix.train.runs.protocol import Place
from hackmatrix.train.runs.shared_path import becomes_true

_TOLD = 6  # differences


@dataclass(frozen=True)
class Layout:
    """A way in which a state may have been saved: a tree of jax.ShapeDtypeStruct with their
    shardings, where None stands for what is not read, and how today's state is made of it.
    """

    shapes: Any
    upgrade: Callable[[Any], Any] = lambda state: state


@dataclass(frozen=True)
class Restored:
    """What a checkpoint held."""

    step: int
    state: Any
    metadata: dict[str, Any]


class Checkpoints:
    """The checkpoints in a directory on a disk or in a bucket. The newest few are kept, the one of
    the highest score and at most so many `milestones`, spread over the run.
    """

    def __init__(
        self,
        directory: Path | Place,
        *,
        keep: int,
        milestones: int = 0,
        say: Callable[[str], None] = streams.say,
    ) -> None:
        self._directory = place(directory)
        self._keep, self._milestones, self._say = keep, milestones, say
        self._saving: Saving | None = None
        self.saved: int | None = None  # the step of the last that was saved or restored
        self._damaged: set[int] = set()
        silence_orbax()

    def save(self, step: int, state: Any, metadata: dict[str, Any]) -> None:
        """Copies the state, which may be donated afterwards; it is written while the run goes on.
        If it cannot be saved, that is said, and the run goes on; but if only this process cannot
        begin to save it, Unavailable is raised.
        """
        self.wait()
        if step == self.saved:
            return
        prepared = gather(self._prepare(step))
        if obstacles := [obstacle for obstacle, _ in prepared if obstacle]:
            self._say(f"{self._place(step)} is not saved: {obstacles[0]}")
            return
        _, besides = prepared[0]
        if isinstance(self._directory, Disk):
            becomes_true(lambda: step not in self.steps())
        arrays = named(state)
        manifest = seal(Manifest(described(arrays), _digests(arrays), metadata))
        self.saved = step
        self._saving = Saving(
            self._directory, step, arrays, manifest, keep=self._keep, besides=besides
        )

    def wait(self) -> None:
        """Until the last checkpoint is on the disk; if it cannot get there, that is said."""
        if self._saving is None:
            return
        saving, self._saving = self._saving, None
        failure = None
        try:
            saving.finish()
        except BrokenBarrier as error:
            failure = [1, str(error)]
        except Exception as error:
            failure = [0, one_line(error)]  # told rather than that others have given up then
        if failures := [each for each in gather(failure) if each]:
            self._say(f"{self._place(saving.step)} is not saved: {min(failures)[1]}")
            self.saved = None
            with suppress(OSError):  # it is tried again before the next one
                self._delete_unfinished()
        elif is_first():
            inventory.take(self._place(saving.step))

    def steps(self) -> list[int]:
        """The steps of all checkpoints, the oldest first; a few of them may be damaged."""
        return shelf.steps(self._directory)

    def best(self) -> Best | None:
        """The one with the highest score of those that can be read; None if none has one."""
        self.wait()
        found, _, unread = read_on_first(lambda: scores.read(self._directory, self.steps()))
        for step, why in unread:
            self._say(f"{self._place(step)} may be the best, but its score cannot be read: {why}")
        return Best(*found) if found else None

    def restore_best(self, *layouts: Layout) -> Restored | None:
        """The checkpoint with the highest score, in the first layout that fits it."""
        if (best := self.best()) is None:
            return None
        try:
            return self._restore(best.step, layouts)
        except Damaged as damage:
            if self.best() != best:  # a training has replaced it meanwhile
                return self.restore_best(*layouts)
            raise UserError(f"{self._place(best.step)} is damaged: {damage}") from None

    def restore_newest(self, *layouts: Layout) -> Restored | None:
        """The newest checkpoint that is not damaged, in the first layout that fits it; None if
        there is no checkpoint at all. Raises UserError if none fits, and Unavailable if the
        directory cannot be reached. Nothing is deleted.
        """
        self.wait()
        for name in read_on_first(lambda: list(map(str, shelf.unfinished(self._directory)))):
            self._say(f"{name} is not finished, or not yet: an older one is tried")
        steps = read_on_first(self.steps)
        for step in reversed(steps):
            try:
                restored = self._restore(step, layouts)
            except Damaged as damage:
                if step not in read_on_first(self.steps):
                    continue  # a training has removed it meanwhile
                self._damaged.add(step)
                self._say(f"{self._place(step)} is damaged, an older one is tried: {damage}")
            else:
                self._say_what_has_changed(step)
                return restored
        if read_on_first(self.steps) != steps:  # there are others by now
            return self.restore_newest(*layouts)
        if steps:
            raise UserError(
                f"all checkpoints in {self._directory} are damaged: restore one from a backup, "
                "or start a new run without --resume"
            )
        return None

    def put_damaged_aside(self) -> None:
        """For a run that goes on from an older one; else that is done before the next save."""
        if is_first():
            with suppress(OSError):
                self._put_damaged_aside()

    def _restore(self, step: int, layouts: Sequence[Layout]) -> Restored:
        manifest = self._read(step)
        misfits = [mismatches(manifest.leaves, layout.shapes) for layout in layouts]
        if all(misfits):
            raise UserError(_misfit(step, min(misfits, key=len)))
        layout = layouts[misfits.index([])]
        wanted = named(layout.shapes)
        arrays = read_on_all(lambda: self._load(step, wanted))
        digests = _digests(arrays)
        changed = [name for name in wanted if digests[name] != manifest.digests[name]]
        if changed:
            raise Damaged(f"not as saved: {', '.join(changed)}")
        if wanted.keys() == manifest.leaves.keys():
            self.saved = step
        state = jax.tree.unflatten(
            jax.tree.structure(layout.shapes), [arrays[name] for name in wanted]
        )
        return Restored(step, layout.upgrade(state), manifest.metadata)

    def _say_what_has_changed(self, step: int) -> None:
        if is_first() and (names := inventory.changed(self._place(step))):
            self._say(
                f"{self._place(step)} is used, as its arrays are whole, but {' and '.join(names)} "
                "changed since it was saved: the disk may be failing"
            )

    def _read(self, step: int) -> Manifest:
        return read_on_all(lambda: read(self._place(step)))

    def _load(self, step: int, wanted: dict[str, Any]) -> dict[str, jax.Array]:
        """Loads once more from a bucket that was away for a moment; Unavailable if it still is."""
        try:
            return self._load_once(step, wanted)
        except Exception:
            if isinstance(self._directory, Disk):
                raise
            self._place(step).exists()
            return self._load_once(step, wanted)

    def _load_once(self, step: int, wanted: dict[str, Any]) -> dict[str, jax.Array]:
        """Without a manager, as that makes processes wait for each other, and this one may fail."""
        arrays = ocp.PyTreeCheckpointHandler().restore(
            epath.Path((self._place(step) / STATE).address),
            args=ocp.args.PyTreeRestore(
                wanted,
                restore_args=ocp.checkpoint_utils.construct_restore_args(wanted),
                partial_restore=True,
            ),
        )
        if odd := mismatches(described(arrays), wanted):
            raise ValueError(odd[0])
        return arrays

    def _prepare(self, step: int) -> tuple[str | None, list[int]]:
        """What stands in the way of saving, after the first process has cleared what it can: the
        checkpoints of a future that this run has turned from would be kept in place of its own.
        And, on the first, the steps of what is to be kept besides the newest.
        """
        try:
            if not is_first():
                self._directory.exists()
                return None, []
            self._directory.try_to_write()
            self._delete_unfinished()
            self._put_damaged_aside()
            later = [self._place(old) for old in self.steps() if old >= step]
            if stay := shelf.put_aside(later, self._say):
                return stay[0], []
            return None, self._besides()
        except OSError as error:
            return one_line(error), []

    def _besides(self) -> list[int]:
        steps = self.steps()
        _, best, unread = scores.read(self._directory, steps)
        milestones = shelf.milestones(steps, self._milestones)
        return [*best, *(step for step, _ in unread), *milestones]

    def _put_damaged_aside(self) -> None:
        if self._damaged:
            there = sorted(self._damaged.intersection(self.steps()))
            for stays in shelf.put_aside(map(self._place, there), self._say):
                self._say(stays)
            self._damaged.clear()

    def _place(self, step: int) -> Place:
        return self._directory / str(step)

    def _delete_unfinished(self) -> None:
        if is_first():
            for each in shelf.unfinished(self._directory):
                each.remove()


def _misfit(step: int, lines: list[str]) -> str:
    """What to say of a good checkpoint of other shapes or types than this run's."""
    changed = "the network, the algorithm or the environment has changed since"
    told = (
        f"checkpoint {step} does not fit this run: {changed}; undo that, or begin a new run; "
        "if the checkpoint was copied here from another run, remove it"
    )
    more = [f"and {len(lines) - _TOLD} more"] if len(lines) > _TOLD else []
    return "\n".join([told, *lines[:_TOLD], *more])


def _digests(arrays: dict[str, jax.Array]) -> dict[str, int]:
    found = CachedJit(digest)(list(arrays.values()))
    return dict(zip(arrays, found.tolist(), strict=True))
