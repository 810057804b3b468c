"""The asynchronous save of one checkpoint, by orbax, while the run goes on."""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint.experimental.v1.options import ArrayOptions

from hackmatrix.parallel.agreement import Barrier
from hackmatrix.train.checkpoints.manifest import MANIFEST
from hackmatrix.train.runs.protocol import Place, Unavailable

# The errors of tensorstore that say nothing about what is in a bucket.
_NOT_ANSWERED = re.compile(r"http_response_code='(401|403|408|429|5\d\d)'|curl_code='")
STATE = "state"  # a folder of every saved checkpoint, so this name must not change


class Saving:
    """A save in progress. The constructor copies the arrays from the devices; they are written in
    the background and committed atomically. Then all checkpoints but the `keep` newest and those at
    the steps `also_keep` are deleted. `finish` raises any error, except that with several processes
    the constructor raises Unavailable if the save cannot begin: the others already wait for it.
    """

    def __init__(
        self,
        directory: Place,
        step: int,
        arrays: dict[str, jax.Array],
        manifest: Any,
        *,
        keep: int,
        also_keep: Sequence[int],
    ) -> None:
        self.step = step
        self._manager: ocp.CheckpointManager | None = None
        self._failure: BaseException | None = None
        content = {STATE: ocp.args.PyTreeSave(arrays), MANIFEST: ocp.args.JsonSave(manifest)}
        try:
            # A new manager for each checkpoint, so that its list of checkpoints is never stale.
            self._manager = ocp.CheckpointManager(
                directory.address,
                options=ocp.CheckpointManagerOptions(
                    create=False,
                    preservation_policy=_kept(keep, also_keep),
                    lightweight_initialize=True,  # else a damaged checkpoint prevents new ones
                    async_options=ocp.AsyncOptions(barrier_sync_fn=Barrier()),
                ),
                handler_registry=_handlers(),
            )
            # Forced, because the run decides when to save, not orbax's policy.
            self._manager.save(step, force=True, args=ocp.args.Composite(**content))
        except Exception as error:
            if jax.process_count() > 1:
                raise Unavailable(
                    f"could not begin to save checkpoint {step}: {one_line(error)}"
                ) from error
            self._failure = _first_of(error)

    def finish(self) -> None:
        """Waits until the checkpoint is written; raises the error that prevented it."""
        if self._manager:
            try:
                self._manager.wait_until_finished()
            except Exception as error:
                self._failure = self._failure or _first_of(error)
            self._manager.close()
        if self._failure:
            raise self._failure


def _handlers() -> ocp.handlers.CheckpointHandlerRegistry:
    """Returns handlers with which the first device writes a replicated array. By default each
    device writes a part, and orbax compiles a program for each part at the first save, which takes
    seconds for a few megabytes.
    """
    whole = ocp.type_handlers.ArrayHandler(
        use_replica_parallel=False,
        array_metadata_store=ArrayOptions.Saving().array_metadata_store,  # the default
    )
    arrays = ocp.type_handlers.create_type_handler_registry((jax.Array, whole))
    registry = ocp.handlers.DefaultCheckpointHandlerRegistry()
    state = ocp.PyTreeCheckpointHandler(type_handler_registry=arrays)
    registry.add(STATE, ocp.args.PyTreeSave, state)
    registry.add(MANIFEST, ocp.args.JsonSave, ocp.JsonCheckpointHandler())
    return registry


def _kept(newest: int, also_keep: Sequence[int]) -> Any:
    policies = ocp.checkpoint_managers
    return policies.AnyPreservationPolicy(
        [policies.LatestN(newest), policies.CustomSteps(also_keep)]
    )


@contextmanager
def answered() -> Iterator[None]:
    """Raises Unavailable where a bucket does not answer tensorstore, or refuses to. It reads arrays
    over connections and with credentials of its own.
    """
    try:
        yield
    except Exception as error:
        if _NOT_ANSWERED.search(str(error)):
            raise Unavailable(one_line(error)) from None
        raise


def one_line(error: BaseException) -> str:
    """Returns the first error of a chain in one line, short enough to read."""
    error = _first_of(error)
    if number := re.search(r"os_error_code='(\d+)'", str(error)):  # tensorstore
        return os.strerror(int(number[1]))
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    said = textwrap.shorten(_reason(str(error)), 200)
    if not said or isinstance(error, KeyError):  # whose message is only the key
        return f"{type(error).__name__} {said}".rstrip()
    return said


def _reason(said: str) -> str:
    """Returns what an error says, but of a chain of errors of tensorstore only the last, without
    its details, which follow in any order: [NAME='VALUE'].
    """
    errors, *details = re.split(r" \[[\w\[\]]+='", said, maxsplit=1)
    return re.sub(": Error .*: Error ", ": Error ", errors) if details else said


def _first_of(error: BaseException) -> BaseException:
    """Returns the error that caused the others, as far back as a traceback shows."""
    while earlier := error.__cause__ or (not error.__suppress_context__ and error.__context__):
        error = earlier
    return error


@functools.cache
def silence_orbax() -> None:
    """Stops orbax from printing tracebacks of errors, which are raised and reported in one line."""
    logging.getLogger("absl").addFilter(lambda entry: "orbax" not in entry.pathname)
    logging.getLogger("asyncio").addFilter(lambda entry: not _is_of_orbax(entry))
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if not _is_left_over(unraisable):
            before(unraisable)

    sys.unraisablehook = hook


def _is_of_orbax(entry: logging.LogRecord) -> bool:
    """Whether a log entry is about orbax failing to write another array after the first failure."""
    frames = traceback.extract_tb(entry.exc_info[2]) if entry.exc_info else []
    return any("orbax" in frame.filename for frame in frames)


def _is_left_over(unraisable: sys.UnraisableHookArgs) -> bool:
    """Whether an error is from writing other arrays after one has failed, which nothing awaits."""
    code = getattr(unraisable.object, "cr_code", None)
    return str(unraisable.exc_value) == "Event loop is closed" or (
        code is not None and "orbax" in code.co_filename
    )
