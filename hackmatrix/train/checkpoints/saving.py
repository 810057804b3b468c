"""The asynchronous save of one checkpoint, by orbax, while the run goes on."""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from hackmatrix.parallel.agreement import Barrier
from hackmatrix.train.checkpoints.manifest import MANIFEST

STATE = "state"  # a folder of every checkpoint on a disk, so this name stays
UNFINISHED = ".orbax-checkpoint-tmp"


class Saving:
    """Begun when it is made: the arrays have been copied from the devices then. They are written
    beside their place and moved there at last; then all but the newest checkpoints and the one of
    step `besides` are deleted.
    """

    def __init__(
        self,
        directory: Path,
        step: int,
        arrays: dict[str, jax.Array],
        manifest: Any,
        *,
        keep: int,
        besides: int | None = None,
    ) -> None:
        self.step = step
        # One manager a checkpoint: what it believes to lie on the disk cannot grow old.
        self._manager = _Manager(
            directory,
            options=ocp.CheckpointManagerOptions(
                create=False,
                preservation_policy=_kept(keep, besides),
                lightweight_initialize=True,  # else a damaged old checkpoint prevents a new one
                async_options=ocp.AsyncOptions(barrier_sync_fn=Barrier()),
            ),
        )
        self._manager.save(
            step,
            force=True,  # the run has decided that it is time
            args=ocp.args.Composite(
                **{STATE: ocp.args.PyTreeSave(arrays), MANIFEST: ocp.args.JsonSave(manifest)}
            ),
        )

    def finish(self) -> None:
        """Waits until it is on the disk; raises what has prevented that."""
        failure = None
        try:
            self._manager.wait_until_finished()
        except Exception as error:
            failure = _first_of(error)
        self._manager.close()
        if failure:
            raise failure


class _Manager(ocp.CheckpointManager):
    def reached_preemption(self, step: int) -> bool:
        """Not asked here. The loop asks, with a count of its own; were it asked with two counts,
        the processes would agree on a step that never comes.
        """
        return False


def _kept(newest: int, besides: int | None) -> Any:
    policies = ocp.checkpoint_managers
    steps = [] if besides is None else [besides]
    return policies.AnyPreservationPolicy([policies.LatestN(newest), policies.CustomSteps(steps)])


def one_line(error: BaseException) -> str:
    """What went wrong first, short enough for a person to read."""
    error = _first_of(error)
    if number := re.search(r"os_error_code='(\d+)'", str(error)):  # tensorstore
        return os.strerror(int(number[1]))
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return textwrap.shorten(str(error), 200) or type(error).__name__


def _first_of(error: BaseException) -> BaseException:
    """The error that led to the others."""
    while earlier := error.__cause__ or error.__context__:
        error = earlier
    return error


@functools.cache
def silence_orbax() -> None:
    """Its errors are raised, and said in one line; it need not print their tracebacks besides."""
    logging.getLogger("absl").addFilter(lambda entry: "orbax" not in entry.pathname)
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if not _is_left_over(unraisable):
            before(unraisable)

    sys.unraisablehook = hook


def _is_left_over(unraisable: sys.UnraisableHookArgs) -> bool:
    """When one array fails, the work on others ends later, with nobody to tell its errors to."""
    code = getattr(unraisable.object, "cr_code", None)
    return str(unraisable.exc_value) == "Event loop is closed" or (
        code is not None and "orbax" in code.co_filename
    )
