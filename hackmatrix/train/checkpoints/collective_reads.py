"""What processes do with a checkpoint together: whatever goes wrong on one goes wrong on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from hackmatrix.parallel.agreement import gather, on_first
from hackmatrix.parallel.failures import is_transient
from hackmatrix.train.checkpoints.saving import one_line
from hackmatrix.train.runs.protocol import Unavailable

T = TypeVar("T")


class Damaged(Exception):
    """What was found when a checkpoint was read."""


def read_on_all(work: Callable[[], T]) -> T:
    """Reads on every process; if that fails on one of them, the checkpoint is no good to any,
    unless the directory was Unavailable, which it is then for all.

    Damage shows as errors of many types, even as lack of memory.
    """
    result, failure = None, None
    try:
        result = work()
    except Exception as error:
        failure = [not isinstance(error, Unavailable), one_line(error)]
    if failures := [each for each in gather(failure) if each]:
        is_damaged, said = min(failures)
        raise Damaged(said) if is_damaged else Unavailable(said)
    return cast(T, result)


def read_on_first(work: Callable[[], T]) -> T:
    """Reads on the first process, for all; where it cannot, all have an OSError: Unavailable, if
    it may pass.
    """

    def outcome() -> list[Any]:
        try:
            return [work(), None]
        except OSError as error:
            return [None, [is_transient(error), str(error)]]

    result, failure = on_first(outcome)
    if failure:
        is_away, said = failure
        raise (Unavailable if is_away else OSError)(said)
    return cast(T, result)
