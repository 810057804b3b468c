"""What is left of a start that fails, or is stopped, before its run has anything to tell."""

from __future__ import annotations

from contextlib import suppress

import jax

from hackmatrix.train.guards.replicas import Diverged
from hackmatrix.train.guards.signals import NOTHING_TO_SAVE
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.plan import Plan
from hackmatrix.train.runs.directory import discard, has_learned
from hackmatrix.train.runs.lease import TakenOver

_MAY_PASS = OSError, jax.errors.JaxRuntimeError, TakenOver, Diverged


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
    again = kind and not issubclass(kind, _MAY_PASS)
    with suppress(OSError):
        if again and plan.can_be_undone and not has_learned(plan.run):
            discard(plan.run)
            supervision.forget()
