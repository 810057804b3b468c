"""Collective operations among processes: gather, broadcast and a barrier.

All processes call them in the same order. They go through the coordinator rather than the devices,
so no device waits for them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import jax

from hackmatrix.errors import UserError
from hackmatrix.parallel.jax_private import coordination_client

T = TypeVar("T")

_turns = itertools.count()
# The watchdog ends a process that waits too long, and JAX does when another one is lost.
_FOR_EVER_MS = 7 * 24 * 3600 * 1000


def is_first() -> bool:
    """Whether this process is the one that decides and writes."""
    return jax.process_index() == 0


def gather(value: Any) -> list[Any]:
    """Returns the values of all processes, in their order. Values have to be JSON-serialisable."""
    if jax.process_count() == 1:
        return [value]
    own = json.dumps(value)
    return [*map(json.loads, _exchanged("hackmatrix/gather", next(_turns), own, _FOR_EVER_MS))]


def broadcast(value: Any) -> Any:
    """Returns the value of the first process."""
    return gather(value if is_first() else None)[0]


def any_process(value: bool) -> bool:
    """Whether the value is true on any process."""
    return any(gather(value))


def every_process(value: bool) -> bool:
    """Whether the value is true on all processes."""
    return all(gather(value))


def on_first(work: Callable[[], T]) -> T:
    """Runs work on the first process only, and returns its result, which has to be
    JSON-serialisable, on all. A UserError there is raised on all.
    """
    return cast(T, gather_results(work if is_first() else lambda: None)[0])


def gather_results(work: Callable[[], T]) -> list[T]:
    """Runs work on every process, and returns all results, which have to be JSON-serialisable. A
    UserError on any process is raised on all.
    """
    result, error = None, None
    try:
        result = work()
    except UserError as failure:
        error = failure
    outcomes = gather([result, None if error is None else str(error)])
    if error:
        raise error
    failed = [f"process {process}: {text}" for process, (_, text) in enumerate(outcomes) if text]
    if failed:
        raise UserError("\n".join(failed))
    return [result for result, _ in outcomes]


def _exchanged(prefix: str, turn: int, own: str, timeout_ms: int) -> Iterator[str]:
    """Yields the texts that the processes give in this turn, in their order; `own` is ours."""
    client, index = coordination_client(), jax.process_index()
    assert client is not None  # there are several processes
    client.key_value_set(f"{prefix}/{turn}/{index}", own)
    for process in range(jax.process_count()):
        yield client.blocking_key_value_get(f"{prefix}/{turn}/{process}", timeout_ms)
    if turn:  # all have reached this turn, so they have read the one before
        client.key_value_delete(f"{prefix}/{turn - 1}/{index}")


class BrokenBarrier(Exception):
    """Raised where another process waits at a different point: it gave up what this one does."""


class Barrier:
    """A point where background threads of all processes wait for each other. It breaks for all of
    them as soon as they wait with different keys, so nobody waits long for one that has failed.
    """

    _made = itertools.count()

    def __init__(self) -> None:
        self._prefix = f"hackmatrix/barrier/{next(self._made)}"
        self._turns = itertools.count()
        self._broken = False

    def __call__(self, *, key: str, timeout_ms: int) -> None:
        if jax.process_count() == 1:
            return
        if self._broken:
            raise BrokenBarrier("another process has given up")
        keys = _exchanged(self._prefix, next(self._turns), key, timeout_ms)
        for process, other in enumerate(keys):
            if other != key:
                self._broken = True
                raise BrokenBarrier(f"process {process} has given up")
