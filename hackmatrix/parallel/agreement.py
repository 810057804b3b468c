"""Collective operations among processes: gather, broadcast and a barrier.

All processes call them in the same order. They go through the coordinator rather than the devices,
so no device waits for them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
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
    client = coordination_client()
    assert client is not None  # there are several processes
    turn, index = next(_turns), jax.process_index()
    client.key_value_set(_key(turn, index), json.dumps(value))
    values = [
        json.loads(client.blocking_key_value_get(_key(turn, process), _FOR_EVER_MS))
        for process in range(jax.process_count())
    ]
    if turn:  # all have reached this turn, so they have read the one before
        client.key_value_delete(_key(turn - 1, index))
    return values


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


def _key(turn: int, process: int) -> str:
    return f"hackmatrix/gather/{turn}/{process}"


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
        client = coordination_client()
        assert client is not None  # there are several processes
        turn, own = next(self._turns), jax.process_index()
        client.key_value_set(self._key(turn, own), key)
        for process in range(jax.process_count()):
            if client.blocking_key_value_get(self._key(turn, process), timeout_ms) != key:
                self._broken = True
                raise BrokenBarrier(f"process {process} has given up")
        if turn:  # as in `gather`
            client.key_value_delete(self._key(turn - 1, own))

    def _key(self, turn: int, process: int) -> str:
        return f"{self._prefix}/{turn}/{process}"
