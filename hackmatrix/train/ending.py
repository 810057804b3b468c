"""How a session ends, whether by itself, by a signal or by an error: the words, the exit code, and
what becomes of its run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack, suppress
from enum import Enum
from types import TracebackType
from typing import Self

import jax

from hackmatrix.exit_codes import DONE, RETRY
from hackmatrix.parallel.agreement import on_first
from hackmatrix.train.guards.replicas import Diverged
from hackmatrix.train.guards.signals import NOTHING_TO_SAVE
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.plan import Plan
from hackmatrix.train.runs.directory import discard, has_learned
from hackmatrix.train.runs.lease import TakenOver
from hackmatrix.train.runs.mirror import Mirror

_TRANSIENT = OSError, jax.errors.JaxRuntimeError, TakenOver, Diverged


class Phase(Enum):
    """What is said if a signal ends a session amid it, and whether all but pages is there then."""

    TRAINING = "Stopped; what was saved stays", False
    EVALUATION = "Stopped before the evaluation, which --resume plays; all is saved", False
    PAGES = "Stopped; only the page of the best game is missing", True
    FINISHING = "Stopped while finishing; --resume completes whatever is missing", True


class Ending:
    """Within it a session holds its run, and gives it back at the end. A signal that ends it when
    all but pages is there leaves it DONE if it `is_last` of what the program does; else that is
    RETRY, as more follows.
    """

    def __init__(self, supervision: Supervision, *, is_last: bool) -> None:
        self._supervision, self._is_last = supervision, is_last
        self._leaving = ExitStack()
        supervision.signals.ends(NOTHING_TO_SAVE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leaving.__exit__(kind, error, traceback)

    def hold(self, plan: Plan) -> None:
        """The run belongs to this process, which is the first, and nothing is written there yet."""
        assert plan.lease
        self._leaving.enter_context(plan.lease)
        if not plan.run.bucket:  # where a supervisor sees whether it has begun
            self._supervision.note(str(plan.run.place))
        leave_no_trace(self._supervision, plan)

    def mirrored(self, plan: Plan, say: Callable[[str], None]) -> Mirror:
        """The mirror of the run, which copies its files once more at the end."""
        self._mirror = self._leaving.enter_context(Mirror(plan.run, plan.lease, say))
        self._leaving.push(functools.partial(after_failing, self._supervision, plan))
        return self._mirror

    def enters(self, phase: Phase) -> None:
        """From now on a signal ends the session in this phase, at once, and gives the run back."""
        words, is_done = phase.value
        code = DONE if is_done and self._is_last else RETRY
        self._supervision.signals.ends(words, code, self._leave)

    def finish(self, code: int) -> int:
        """Gives the run back; gives the exit code, which is RETRY if a file did not come to the
        run's bucket. All processes wait for the first, which may write.
        """
        words, _ = Phase.FINISHING.value
        self._supervision.signals.ends(words)
        self._leaving.close()
        if not on_first(lambda: self._mirror.has_sent_all):
            code = RETRY
        self._supervision.signals.ends(words, code if self._is_last else RETRY)
        return code

    def _leave(self) -> int | None:
        self._leaving.close()
        return None if self._mirror.has_sent_all else RETRY


def leave_no_trace(supervision: Supervision, plan: Plan) -> None:
    """Has a signal before the first update end the program and remove what this start has made, as
    long as the run is ours: whoever takes it next has files there.
    """

    def undo() -> None:
        try:
            if plan.can_be_undone:
                discard(plan.run)
                supervision.forget()
        finally:
            if plan.lease:
                plan.lease.give_back()

    supervision.signals.ends(NOTHING_TO_SAVE, undo=undo)


def after_failing(
    supervision: Supervision, plan: Plan, kind: type[BaseException] | None, *_: object
) -> None:
    """Removes a run that would fail again, or was interrupted, if that was before it had anything
    to tell. That is done while the run is ours, and its files are here.
    """
    again = kind and not issubclass(kind, _TRANSIENT)
    with suppress(OSError):
        if again and plan.can_be_undone and not has_learned(plan.run):
            discard(plan.run)
            supervision.forget()
