"""What all processes have to know of each other. All of them call these, in the same order.

They talk through the coordinator, so that no device waits for it, and none has to be there yet.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
from jax._src import distributed

T = TypeVar("T")

_turns = itertools.count()
# Whoever waits is ended by its watchdog, or by JAX when a process is lost.
_FOR_EVER_MS = 7 * 24 * 3600 * 1000


def everyone(value: Any) -> list[Any]:
    """The value of each process, in their order; a value is what JSON can say."""
    if jax.process_count() == 1:
        return [value]
    client = distributed.global_state.client
    assert client is not None  # there are several processes
    turn, me = next(_turns), jax.process_index()
    client.key_value_set(_key(turn, me), json.dumps(value))
    values = [
        json.loads(client.blocking_key_value_get(_key(turn, process), _FOR_EVER_MS))
        for process in range(jax.process_count())
    ]
    if turn:  # all are at this turn, so they have read the one before
        client.key_value_delete(_key(turn - 1, me))
    return values


def first(value: Any) -> Any:
    """The value of the first process."""
    return everyone(value if jax.process_index() == 0 else None)[0]


def anyone(value: bool) -> bool:
    """Whether it is so on any process."""
    return any(everyone(value))


class Elsewhere(Exception):
    """What has failed on another process."""


def together(work: Callable[[], T], *faults: type[Exception]) -> T:
    """What the work gives here; if one of these faults ends it on any process, it ends on all."""
    result, fault = None, None
    try:
        result = work()
    except faults as error:
        fault = error
    texts = everyone(None if fault is None else str(fault))
    if fault:
        raise fault
    if lines := [f"process {each}: {text}" for each, text in enumerate(texts) if text is not None]:
        raise Elsewhere("\n".join(lines))
    return cast(T, result)


def _key(turn: int, process: int) -> str:
    return f"hackmatrix/everyone/{turn}/{process}"


class Parted(Exception):
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
            raise Parted("a barrier is broken")
        client = distributed.global_state.client
        assert client is not None  # there are several processes
        turn = f"{self._prefix}/{next(self._turns)}"
        client.key_value_set(f"{turn}/{jax.process_index()}", key)
        for process in range(jax.process_count()):
            if client.blocking_key_value_get(f"{turn}/{process}", timeout_ms) != key:
                self._broken = True
                raise Parted(f"process {process} has given up")
