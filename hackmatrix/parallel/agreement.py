"""What all processes have to know of each other. All of them call these, in the same order."""

from __future__ import annotations

import itertools
import json
from typing import Any

import jax
import numpy as np
from jax._src import distributed
from jax.experimental import multihost_utils

_BLOCK = 4096  # texts are sent in whole blocks, so that few lengths are compiled


def everyone(value: Any) -> list[Any]:
    """The value of each process, in their order; a value is what JSON can say."""
    if jax.process_count() == 1:
        return [value]
    text = np.frombuffer(json.dumps(value).encode(), np.uint8)
    sizes = multihost_utils.process_allgather(np.int32(text.size))
    room = -(-int(sizes.max()) // _BLOCK) * _BLOCK
    texts = multihost_utils.process_allgather(np.pad(text, (0, room - text.size)))
    return [json.loads(row[:size].tobytes()) for row, size in zip(texts, sizes, strict=True)]


def first(value: Any) -> Any:
    """The value of the first process."""
    return everyone(value if jax.process_index() == 0 else None)[0]


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
