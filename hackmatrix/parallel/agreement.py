"""Collective operations of processes: gather, broadcast and a barrier.

All processes call them in the same order. They go through the coordinator and not through devices,
so no device waits for them, and they work before there are any devices.
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
# Whoever waits is ended by its watchdog, or by JAX when a process is lost.
_FOR_EVER_MS = 7 * 24 * 3600 * 1000


def is_first() -> bool:
    """Whether this process is the one that decides and writes."""
    return jax.process_index() == 0


def gather(value: Any) -> list[Any]:
    """The value of each process, in their order; a value is what JSON can say."""
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
    if turn:  # all are at this turn, so they have read the one before
        client.key_value_delete(_key(turn - 1, index))
    return values


def broadcast(value: Any) -> Any:
    """The value of the first process."""
    return gather(value if is_first() else None)[0]


def any_process(value: bool) -> bool:
    """Whether it is so on any process."""
    return any(gather(value))


def every_process(value: bool) -> bool:
    """Whether it is so on all processes."""
    return all(gather(value))


def on_first(work: Callable[[], T]) -> T:
    """What the work, which only the first process does, gives: something that JSON can say. If a
    UserError ends it, it ends this on all.
    """
    return cast(T, gather_results(work if is_first() else lambda: None)[0])


def gather_results(work: Callable[[], T]) -> list[T]:
    """What the work, which every process does, gives on each: something that JSON can say. If a
    UserError ends it on any process, it ends this on all.
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
    """Another process waits at another point: it has given up what this one was doing."""


class Barrier:
    """Where background threads of all processes wait for each other. It breaks for all of them as
    soon as they wait at different points, so that nobody waits long for one that has failed.
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
        if turn:  # all have read what was told before
            client.key_value_delete(self._key(turn - 1, own))

    def _key(self, turn: int, process: int) -> str:
        return f"{self._prefix}/{turn}/{process}"
