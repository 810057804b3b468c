"""How a session ends, by itself, by a signal or by an error: the message, the exit code, and what
happens to its run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack, suppress
from enum import Enum

import jax

from hackmatrix.errors import UserError
from hackmatrix.exit_codes import DONE, RETRY
from hackmatrix.parallel.agreement import on_first
from hackmatrix.train.guards.replicas import Diverged
from hackmatrix.train.guards.signals import NOTHING_TO_SAVE
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.plan import Plan
from hackmatrix.train.runs.directory import discard, has_learned, must_be_free
from hackmatrix.train.runs.lease import TakenOver
from hackmatrix.train.runs.mirror import Mirror

_TRANSIENT = OSError, jax.errors.JaxRuntimeError, TakenOver, Diverged


class Phase(Enum):
    """The message if a signal ends a session in this phase; whether only pages can be missing."""

    TRAINING = "Stopped; the saved checkpoints are kept", False
    EVALUATION = "Stopped before the final evaluation; all is saved, and --resume plays it", False
    PAGES = "Stopped; only the page of the best game is missing", True
    FINISHING = "Stopped while finishing; --resume completes whatever is missing", True


class Ending(ExitStack):
    """A context in which a session holds its run, and which releases it at the end. A signal ends
    the session with the exit code DONE if only pages can be missing and the session `is_last` in
    the program, else with RETRY, as more follows.
    """

    def __init__(self, supervision: Supervision, *, is_last: bool) -> None:
        super().__init__()
        self._supervision, self._is_last = supervision, is_last
        supervision.signals.ends(NOTHING_TO_SAVE)

    def hold(self, plan: Plan) -> None:
        """Takes over the lease of the run, on the first process, before anything is written there.
        Until training begins a signal undoes the start.
        """
        assert plan.lease
        self.enter_context(plan.lease)
        self.push(functools.partial(after_interrupt, self._supervision, plan))
        if not plan.run.bucket:  # on a disk a supervisor sees whether the run has begun
            self._supervision.note(str(plan.run.place))
        undo_on_signal(self._supervision, plan)

    def mirrored(self, plan: Plan, say: Callable[[str], None]) -> Mirror:
        """Starts the mirror of the run, which copies its files once more at the end."""
        self._mirror = self.enter_context(Mirror(plan.run, plan.lease, say))
        self.push(functools.partial(after_failing, self._supervision, plan))
        return self._mirror

    def enters(self, phase: Phase) -> None:
        """Enters a phase: a signal that is not noted (guards/signals.py) now ends the session at
        once, with the words of this phase, and releases the run.
        """
        words, is_done = phase.value
        code = DONE if is_done and self._is_last else RETRY
        self._supervision.signals.ends(words, code, self._leave)

    def finish(self, code: int) -> int:
        """Releases the run and returns the exit code, which is RETRY if a file did not reach the
        run's bucket. All processes wait for the first, which may still be writing.
        """
        words, _ = Phase.FINISHING.value
        self._supervision.signals.ends(words)
        self.close()
        if not on_first(lambda: self._mirror.has_sent_all):
            code = RETRY
        self._supervision.signals.ends(words, code if self._is_last else RETRY)
        return code

    def _leave(self) -> int | None:
        self.close()
        return None if self._mirror.has_sent_all else RETRY


def undo_on_signal(supervision: Supervision, plan: Plan) -> None:
    """Makes a signal before the first update end the program and remove the new run. It is removed
    only while this process owns it: the next owner has files there.
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


def after_interrupt(
    supervision: Supervision, plan: Plan, kind: type[BaseException] | None, *_: object
) -> None:
    """Removes a new run that was interrupted before its first files were written. Called while this
    process owns the run.
    """
    with suppress(OSError, UserError):
        if kind and issubclass(kind, KeyboardInterrupt) and plan.can_be_undone:
            must_be_free(plan.run.place)
            discard(plan.run)
            supervision.forget()


def after_failing(
    supervision: Supervision, plan: Plan, kind: type[BaseException] | None, *_: object
) -> None:
    """Removes a new run that was interrupted, or failed in a way that would repeat, before it had
    metrics or a checkpoint. Called while this process owns the run and still has its files.
    """
    again = kind and not issubclass(kind, _TRANSIENT)
    with suppress(OSError, UserError):
        if again and plan.can_be_undone and not has_learned(plan.run):
            discard(plan.run)
            supervision.forget()
