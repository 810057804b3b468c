"""The flag of programs in which a policy may look ahead before it acts."""

from __future__ import annotations

from absl import flags

_PLAN = flags.DEFINE_integer(
    "plan",
    0,
    "Look ahead: so many games are played on from each board before an action is taken. What the "
    "player cannot see is drawn anew for each. 4 or more; 0 acts at once.",
    lower_bound=0,
)


def plan() -> int:
    return int(_PLAN.value)


def again() -> str:
    """The flag as it was given, for another command line."""
    return f" --plan={_PLAN.value}" if _PLAN.value else ""
