"""The flags that name a policy or its run, and loading that policy."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from launch.startup import command_line, run_flags, starting

if TYPE_CHECKING:
    from hackmatrix.api.agent import Agent
    from hackmatrix.envs.headless import Choose

_POLICY = flags.DEFINE_string(
    "policy",
    None,
    "Instead of a run: an agent such as policies/winner, or a file that launch.export wrote.",
)
_BEST = flags.DEFINE_bool(
    "best",
    False,
    "Use the run's best checkpoint (by its evaluations, eval/) instead of the newest.",
)

command_line.refuse_empty(_POLICY)

_EXPORTED = "exported"


def parser(program: str) -> command_line.Parse:
    """Returns a `flags_parser` for `app.run`. A mistake ends the program with one line."""
    parse = command_line.parser(program)

    def parse_one(arguments: list[str]) -> list[str]:
        rest = parse(arguments)
        if run_flags.name() and _POLICY.value:
            sys.exit(f"{program}: use --run=RUN or --policy=FILE, not both")
        return rest

    return parse_one


def load(program: str) -> Agent:
    """Loads the agent that is named, or that of the latest run; ends the program with one line if
    there is none.
    """
    if not _POLICY.value and run_flags.is_latest():
        run_flags.find(program, ", or --policy=policies/winner")
    with starting.loading(program, "JAX and the policy"):
        from hackmatrix.api.agent import Agent
        from hackmatrix.train.policies import policy

        with starting.one_line_errors(program):
            starting.need_devices()
            workdir, name, file = run_flags.workdir(), run_flags.name(), _POLICY.value
            return Agent(policy.load(workdir, name, file, starting.say_aside, best=_BEST.value))


def adviser(program: str, plan: int) -> Choose | None:
    """Returns the function that advises a player of HackMatrix with the policy's best action; None
    if no policy is named.
    """
    if not (run_flags.name() or _POLICY.value):
        if plan:
            sys.exit(f"{program}: --plan={plan} needs a policy: use --run=RUN or --policy=FILE")
        if _BEST.value:
            sys.exit(f"{program}: --best needs a run: use --run=RUN")
        return None
    agent = load(program)
    if agent.env.name != "hackmatrix":
        sys.exit(
            f"{program}: this policy plays {agent.env.name}, so it cannot advise in hackmatrix"
        )
    from hackmatrix.train.policies.player import Player

    with starting.one_line_errors(program):
        planner = agent.planner(plan)
    return Player(agent.policy, seed=0, number=0, greedy=True, planner=planner).choose


def place_for_exports() -> Path:
    """Returns the default directory for exports of this policy: inside that of its run, a separate
    one for the run's best; exported/NAME here if it has no run, or one in a bucket.
    """
    from hackmatrix.networks.files import is_shipped
    from hackmatrix.train.runs import directory

    named = str(_POLICY.value or run_flags.name())
    if _POLICY.value or is_shipped(named):
        return Path(_EXPORTED, _name_of(Path(named).absolute()))
    found = directory.find(run_flags.workdir(), named)
    assert found
    best = "-best" if _BEST.value else ""
    if found.bucket:
        return Path(_EXPORTED, found.name + best)
    return found.directory / (_EXPORTED + best)


def _name_of(policy: Path) -> str:
    """Returns the name of a policy's file or folder, or of its run if `launch.export` wrote it."""
    from hackmatrix.networks.files import EXPORTED

    folder = policy.parent if policy.name == EXPORTED else policy
    if folder.name in (_EXPORTED, f"{_EXPORTED}-best"):
        return folder.parent.name + folder.name.removeprefix(_EXPORTED)
    return folder.name.removesuffix(".npz")


def as_flags() -> str:
    """The flags that name this policy, for another command line."""
    if _POLICY.value:
        return f"--policy={shlex.quote(_POLICY.value)}"
    return run_flags.as_flags(" --best" if _BEST.value else "")
