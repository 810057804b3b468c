"""The --plan flag, of programs in which a policy may look ahead before it acts."""

from __future__ import annotations

from absl import flags

_PLAN = flags.DEFINE_integer(
    "plan",
    0,
    "Look ahead: before each action, play this many games on from the board, with what the player "
    "cannot see drawn anew for each. From 4 to 4096; 0 acts at once.",
)
_FEWEST, _MOST = 4, 4096  # as in hackmatrix.search.planner, which imports JAX
flags.register_validator(
    _PLAN,
    lambda games: games == 0 or _FEWEST <= games <= _MOST,
    f"must be 0, or from {_FEWEST} to {_MOST}",
)


def refuse_with(greedy: flags.FlagHolder[bool]) -> None:
    """Makes --plan an error beside this flag: looking ahead chooses the action on its own."""
    flags.register_multi_flags_validator(
        [_PLAN, greedy],
        lambda given: not all(given.values()),
        "cannot be combined: choose one of them",
    )


def plan() -> int:
    return _PLAN.value


def as_flags() -> str:
    """The flag as it was given, for another command line."""
    return f" --plan={_PLAN.value}" if _PLAN.value else ""
