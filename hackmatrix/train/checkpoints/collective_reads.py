"""Reads of checkpoints by all processes together: if one process fails, all of them fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from hackmatrix.parallel.agreement import gather, on_first
from hackmatrix.parallel.failures import is_transient
from hackmatrix.train.checkpoints.saving import one_line
from hackmatrix.train.runs.protocol import Unavailable

T = TypeVar("T")


class Damaged(Exception):
    """A checkpoint that was read is damaged; the message says how."""


def read_on_all(work: Callable[[], T]) -> T:
    """Returns the result of `work` on every process. If it fails on any process, all raise Damaged,
    or Unavailable if one could not reach the directory.

    Any exception counts as damage, which causes errors of many types, even out-of-memory errors.
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
    """Calls `work` on the first process and returns its result on all. If it raises an OSError, all
    processes raise one: Unavailable if the failure is transient.
    """

    def outcome() -> list[Any]:
        try:
            return [work(), None]
        except OSError as error:
            is_away = is_transient(error)
            return [None, [is_away, str(error) if is_away else one_line(error)]]

    result, failure = on_first(outcome)
    if failure:
        is_away, said = failure
        raise (Unavailable if is_away else OSError)(said)
    return cast(T, result)
