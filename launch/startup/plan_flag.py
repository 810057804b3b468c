"""The flag of programs in which a policy may look ahead before it acts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from absl import flags

if TYPE_CHECKING:
    from hackmatrix.search.planner import Planner
    from hackmatrix.train.policies.policy import Policy

_PLAN = flags.DEFINE_integer(
    "plan",
    0,
    "Look ahead: so many games are tried from each board before an action is taken. What the "
    "player cannot see is drawn anew for each. 0 acts at once.",
    lower_bound=0,
)


def simulations() -> int:
    return int(_PLAN.value)


def planner(program: str, policy: Policy) -> Planner | None:
    """The planner that was asked for; ends the program with one line where there can be none."""
    if not _PLAN.value:
        return None
    from hackmatrix.search.planner import Planner

    if not policy.env.tells_what_is_hidden:
        sys.exit(f"{program}: --plan is not for {policy.env.name}, whose hidden parts are unknown")
    return Planner(policy.env, policy.network, policy.signal, _PLAN.value)


def again() -> str:
    """The flag as it was given, for another command line."""
    return f" --plan={_PLAN.value}" if _PLAN.value else ""
