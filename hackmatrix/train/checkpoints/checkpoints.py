"""Checkpoints: the saved train state, committed atomically and verified by digests when restored.

    STEP/                 a committed checkpoint; STEP counts environment steps
        state/            the arrays, as orbax writes them
        record/metadata   the manifest: shapes, types and digests of the arrays, and metadata
        inventory.json    the files and their hashes, to detect any change to them
    STEP.aside-N          a damaged checkpoint, or one later than the step the run was rewound to

All processes of a run make the same calls, in the same order.
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
from hackmatrix.train.checkpoints.saving import STATE, Saving, answered, one_line, silence_orbax
from hackmatrix.train.checkpoints.scores import Best
from hackmatrix.train.runs.places import Disk, place
from hackmatrix.train.runs.protocol import Place, one_line_errors
from hackmatrix.train.runs.shared_path import becomes_true

_MOST_DIFFERENCES = 6  # as many are reported


@dataclass(frozen=True)
class Layout:
    """A layout in which a state may have been saved. `shapes` is a pytree of jax.ShapeDtypeStruct
    with shardings, and None for what is not read; `upgrade` turns it into the current layout.
    """

    shapes: Any
    upgrade: Callable[[Any], Any] = lambda state: state


@dataclass(frozen=True)
class Restored:
    """The contents of a checkpoint."""

    step: int
    state: Any
    metadata: dict[str, Any]


class Checkpoints:
    """The checkpoints in a directory on a disk or in a bucket. Keeps the `keep` newest, the best by
    score, and up to `milestones` that are spread over the run.
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
        self.saved: int | None = None  # the step of the last one that was saved or restored
        self._damaged: set[int] = set()
        silence_orbax()

    def save(self, step: int, state: Any, metadata: dict[str, Any]) -> None:
        """Copies the state, which may be donated afterwards, and writes it in the background.
        A failure is reported, and the run goes on. But if one of several processes fails after all
        were ready to save, it raises Unavailable.
        """
        self.wait()
        if step == self.saved:
            return
        prepared = gather(self._prepare(step))
        if obstacles := [obstacle for obstacle, _ in prepared if obstacle]:
            self._say(f"{self._place(step)} is not saved: {obstacles[0]}")
            return
        _, also_keep = prepared[0]
        if isinstance(self._directory, Disk):
            becomes_true(lambda: step not in self.steps())
        arrays = named(state)
        manifest = seal(Manifest(described(arrays), _digests(arrays), metadata))
        self.saved = step
        self._saving = Saving(
            self._directory, step, arrays, manifest, keep=self._keep, also_keep=also_keep
        )

    def wait(self) -> None:
        """Waits until the last checkpoint is written; reports a failure."""
        if self._saving is None:
            return
        saving, self._saving = self._saving, None
        failure = None
        try:
            saving.finish()
        except BrokenBarrier as error:
            failure = [1, str(error)]
        except Exception as error:
            failure = [0, one_line(error)]  # reported in preference to a broken barrier
        if failures := [each for each in gather(failure) if each]:
            self._say(f"{self._place(saving.step)} is not saved: {min(failures)[1]}")
            self.saved = None
            with suppress(OSError):  # the next save tries it again
                self._delete_unfinished()
        elif is_first():
            inventory.take(self._place(saving.step))

    def steps(self) -> list[int]:
        """Returns the steps of all checkpoints, oldest first; some of them may be damaged."""
        return shelf.steps(self._directory)

    def best(self) -> Best | None:
        """Returns the highest score of the checkpoints that can be read; None if none has one."""
        self.wait()
        found, _, unread = read_on_first(lambda: scores.read(self._directory, self.steps()))
        for step, why in unread:
            self._say(f"{self._place(step)} may be the best, but its score cannot be read: {why}")
        return Best(*found) if found else None

    def restore_best(self, *layouts: Layout) -> Restored | None:
        """Restores the checkpoint with the highest score, in the first layout that fits it; None if
        none has a score.
        """
        with one_line_errors(f"{self._directory} cannot be read"):
            best = self.best()
        if best is None:
            return None
        try:
            return self._restore(best.step, layouts)
        except Damaged as damage:
            if self.best() != best:  # a training process has replaced it meanwhile
                return self.restore_best(*layouts)
            raise UserError(f"{self._place(best.step)} is damaged: {damage}") from None

    def restore_newest(self, *layouts: Layout) -> Restored | None:
        """Restores the newest checkpoint that is not damaged, in the first layout that fits it;
        None if there are no checkpoints. Raises UserError if no layout fits or all checkpoints are
        damaged, and Unavailable if the directory cannot be reached. Deletes nothing.
        """
        self.wait()
        for name in self._listed(lambda: list(map(str, shelf.unfinished(self._directory)))):
            self._say(f"{name} is unfinished or still being written: trying an older one")
        steps = self._listed(self.steps)
        for step in reversed(steps):
            try:
                restored = self._restore(step, layouts)
            except Damaged as damage:
                if step not in self._listed(self.steps):
                    continue  # a training process has removed it meanwhile
                self._damaged.add(step)
                self._say(f"{self._place(step)} is damaged, trying an older one: {damage}")
            else:
                self._say_what_has_changed(step)
                return restored
        if self._listed(self.steps) != steps:  # they have changed meanwhile
            return self.restore_newest(*layouts)
        if steps:
            raise UserError(
                f"all checkpoints in {self._directory} are damaged: restore one from a backup, "
                "or start a new run without --resume"
            )
        return None

    def put_damaged_aside(self) -> None:
        """Renames the damaged checkpoints now, for a run that resumes from an older one. Otherwise
        the next save does it.
        """
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
            raise Damaged(f"these arrays changed since it was saved: {', '.join(changed)}")
        if wanted.keys() == manifest.leaves.keys():
            self.saved = step
        state = jax.tree.unflatten(
            jax.tree.structure(layout.shapes), [arrays[name] for name in wanted]
        )
        return Restored(step, layout.upgrade(state), manifest.metadata)

    def _listed(self, work: Callable[[], list[Any]]) -> list[Any]:
        """Returns what the first process lists; raises UserError if it cannot."""
        with one_line_errors(f"{self._directory} cannot be read"):
            return read_on_first(work)

    def _say_what_has_changed(self, step: int) -> None:
        if is_first() and (names := inventory.changed(self._place(step))):
            self._say(
                f"{self._place(step)} is used because its arrays are intact, but "
                f"{' and '.join(names)} changed since it was saved: the disk may be failing"
            )

    def _read(self, step: int) -> Manifest:
        return read_on_all(lambda: read(self._place(step)))

    def _load(self, step: int, wanted: dict[str, Any]) -> dict[str, jax.Array]:
        """Loads the arrays; retries once for a bucket, or raises Unavailable if it is away."""
        try:
            return self._load_once(step, wanted)
        except Exception:
            if isinstance(self._directory, Disk):
                raise
        self._place(step).exists()
        with answered():
            return self._load_once(step, wanted)

    def _load_once(self, step: int, wanted: dict[str, Any]) -> dict[str, jax.Array]:
        """Loads without a CheckpointManager, in which others would wait if this process fails."""
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
        """Prepares the directory on the first process; returns what prevents saving, if anything,
        and on the first process the steps to keep besides the newest. Checkpoints at `step` or
        later, left from before a rewind, are put aside: else they would count as the newest.
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
            return None, self._not_newest_to_keep()
        except OSError as error:
            return one_line(error), []

    def _not_newest_to_keep(self) -> list[int]:
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
    """Returns the message for a good checkpoint with other shapes or types than this run's."""
    changed = "the network, the algorithm or the environment has changed since it was saved"
    told = (
        f"checkpoint {step} does not fit this run: {changed}; undo that change or start a new "
        "run; if the checkpoint was copied here from another run, remove it"
    )
    more = [f"and {len(lines) - _MOST_DIFFERENCES} more"] if len(lines) > _MOST_DIFFERENCES else []
    return "\n".join([told, *lines[:_MOST_DIFFERENCES], *more])


def _digests(arrays: dict[str, jax.Array]) -> dict[str, int]:
    found = CachedJit(digest)(list(arrays.values()))
    return dict(zip(arrays, found.tolist(), strict=True))
