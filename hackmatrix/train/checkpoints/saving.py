"""The asynchronous save of one checkpoint, by orbax, while the run goes on."""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Sequence
from typing import Any

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint.experimental.v1.options import ArrayOptions

from hackmatrix.parallel.agreement import Barrier
from hackmatrix.train.checkpoints.manifest import MANIFEST
from hackmatrix.train.runs.protocol import Place, Unavailable

STATE = "state"  # a folder of every checkpoint on a disk, so this name stays


class Saving:
    """A save that has begun: the arrays are copied from the devices when it is made. They are
    written so that only a whole checkpoint counts; then all checkpoints but the newest and those of
    the steps `besides` are deleted. `finish` raises whatever has gone wrong. With several processes
    a save that cannot begin raises Unavailable at once: the others wait for it, and cannot be told.
    """

    def __init__(
        self,
        directory: Place,
        step: int,
        arrays: dict[str, jax.Array],
        manifest: Any,
        *,
        keep: int,
        besides: Sequence[int],
    ) -> None:
        self.step = step
        self._manager: _Manager | None = None
        self._failure: BaseException | None = None
        content = {STATE: ocp.args.PyTreeSave(arrays), MANIFEST: ocp.args.JsonSave(manifest)}
        try:
            # One manager a checkpoint: what it believes to lie on the disk cannot grow old.
            self._manager = _Manager(
                directory.address,
                options=ocp.CheckpointManagerOptions(
                    create=False,
                    preservation_policy=_kept(keep, besides),
                    lightweight_initialize=True,  # else a damaged old checkpoint prevents a new one
                    async_options=ocp.AsyncOptions(barrier_sync_fn=Barrier()),
                ),
                handler_registry=_handlers(),
            )
            # By force, as the run has decided that it is time.
            self._manager.save(step, force=True, args=ocp.args.Composite(**content))
        except Exception as error:
            if jax.process_count() > 1:
                raise Unavailable(
                    f"checkpoint {step} could not be begun: {one_line(error)}"
                ) from error
            self._failure = _first_of(error)

    def finish(self) -> None:
        """Waits until it is on the disk; raises what has prevented that."""
        if self._manager:
            try:
                self._manager.wait_until_finished()
            except Exception as error:
                self._failure = self._failure or _first_of(error)
            self._manager.close()
        if self._failure:
            raise self._failure


class _Manager(ocp.CheckpointManager):
    def reached_preemption(self, step: int) -> bool:
        """Not asked here. The loop asks, with a count of its own; were it asked with two counts,
        the processes would agree on a step that never comes.
        """
        return False


def _handlers() -> ocp.handlers.CheckpointHandlerRegistry:
    """Arrays that devices share are written by the first of them. Else each would write a part, and
    orbax compile a program for each part at the first save: seconds, for a few megabytes.
    """
    whole = ocp.type_handlers.ArrayHandler(
        use_replica_parallel=False,
        array_metadata_store=ArrayOptions.Saving().array_metadata_store,  # as by default
    )
    arrays = ocp.type_handlers.create_type_handler_registry((jax.Array, whole))
    registry = ocp.handlers.DefaultCheckpointHandlerRegistry()
    state = ocp.PyTreeCheckpointHandler(type_handler_registry=arrays)
    registry.add(STATE, ocp.args.PyTreeSave, state)
    registry.add(MANIFEST, ocp.args.JsonSave, ocp.JsonCheckpointHandler())
    return registry


def _kept(newest: int, besides: Sequence[int]) -> Any:
    policies = ocp.checkpoint_managers
    return policies.AnyPreservationPolicy([policies.LatestN(newest), policies.CustomSteps(besides)])


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
    logging.getLogger("asyncio").addFilter(lambda entry: not _is_of_orbax(entry))
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if not _is_left_over(unraisable):
            before(unraisable)

    sys.unraisablehook = hook


def _is_of_orbax(entry: logging.LogRecord) -> bool:
    """Of an array that could not be written after the first one that could not."""
    frames = traceback.extract_tb(entry.exc_info[2]) if entry.exc_info else []
    return any("orbax" in frame.filename for frame in frames)


def _is_left_over(unraisable: sys.UnraisableHookArgs) -> bool:
    """When one array fails, the work on others ends later, with nobody to tell its errors to."""
    code = getattr(unraisable.object, "cr_code", None)
    return str(unraisable.exc_value) == "Event loop is closed" or (
        code is not None and "orbax" in code.co_filename
    )
