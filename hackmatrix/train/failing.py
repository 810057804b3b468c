"""What is left of a start that fails, or is stopped, before its run has anything to tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import jax

from hackmatrix.errors import UserError
from hackmatrix.train.config import Config
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


@contextmanager
def told_if_too_large(words: str) -> Iterator[None]:
    """A lack of memory is told in these words, which say what needs less."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UserError(words) from error


def too_large(config: Config) -> str:
    """What to say of a run that is."""
    return (
        f"updates of {config.num_envs} environments x {config.num_steps} steps, or "
        f"{config.eval_games} games to measure by, need more memory than there is; lower "
        "--config.num_envs or --config.num_steps, or --config.eval_games"
    )
