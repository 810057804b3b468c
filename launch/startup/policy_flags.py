"""The flags that name a policy or a run, and loading what they name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import flags

from launch.startup import starting

if TYPE_CHECKING:
    from hackmatrix.train.policies.policy import Policy
    from hackmatrix.train.runs.directory import Run

_RUN = flags.DEFINE_string("run", None, "The run: its name, its directory, or auto for the newest.")
_POLICY = flags.DEFINE_string(
    "policy", None, "The policy: policies/NAME, or a file that launch.export wrote."
)
_BEST = flags.DEFINE_bool(
    "best", False, "Of a run that measured itself, take the best checkpoint instead of the newest."
)
_WORKDIR = flags.DEFINE_string("workdir", "runs", "Where run directories are.")


def parser(program: str, needed: bool = True) -> Callable[[list[str]], list[str]]:
    """What `app.run(main, flags_parser=...)` needs. A mistake ends the program with one line."""

    def parse(arguments: list[str]) -> list[str]:
        try:
            rest = flags.FLAGS(arguments)
        except flags.Error as error:
            sys.exit(f"{program}: {' '.join(str(error).split())}")
        if rest[1:]:
            sys.exit(f"{program}: {rest[1]!r} is no flag")
        if (needed and not is_given()) or (_RUN.value and _POLICY.value):
            sys.exit(f"{program}: say --run=RUN or --policy=FILE")
        return rest

    return parse


def is_given() -> bool:
    return bool(_RUN.value or _POLICY.value)


def load(program: str) -> Policy:
    """The policy; ends the program with one line where there is none."""
    with starting.waiting(f"{program}: loading JAX and the policy"):
        from hackmatrix.train.policies import policy

        with starting.one_line_errors(program):
            return policy.load(_WORKDIR.value, _RUN.value, _POLICY.value, _say, best=_BEST.value)


def run(program: str) -> Run:
    """The run, for programs that need all of it; ends the program with one line as above."""
    if not _RUN.value:
        sys.exit(f"{program}: say --run=RUN")
    with starting.waiting(f"{program}: looking for the run"):
        from hackmatrix.train.runs import directory

        with starting.one_line_errors(program):
            found = directory.find(_WORKDIR.value, _RUN.value)
    if found is None:
        sys.exit(f"{program}: there is no run in {_WORKDIR.value}")
    return found


def again() -> str:
    """The flags that name this policy, for another command line."""
    named = f"--policy={_POLICY.value}" if _POLICY.value else f"--run={_RUN.value}"
    named += " --best" if _BEST.value else ""
    return named if _WORKDIR.value == "runs" else f"{named} --workdir={_WORKDIR.value}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
