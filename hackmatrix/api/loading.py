"""Loads agents by name."""

from __future__ import annotations

import os
from pathlib import Path

from hackmatrix.api.agent import Agent
from hackmatrix.api.run import Run
from hackmatrix.cache import keep_compiled_programs
from hackmatrix.errors import UserError
from hackmatrix.networks import files
from hackmatrix.train.policies import policy as policies


def load(which: str | Path | Run, *, workdir: str | Path = "runs", best: bool = False) -> Agent:
    """Loads a trained agent. `which` is a run that `train` returned; the name of a run in
    `workdir`, its directory, gs://BUCKET/... or "auto" for the latest; policies/NAME for an agent
    that comes with the trainer; or an exported file, FILE.npz, or its folder. Of a run it loads the
    newest checkpoint, or with `best` the best one by the run's own evaluations (eval/).
    """
    keep_compiled_programs()
    if isinstance(which, Run):
        return which.agent(best=best)
    if not isinstance(which, str | Path):
        raise UserError(
            f"{which!r} is not an agent: give a run, its name, policies/NAME or FILE.npz"
        )
    if "\0" in str(which):
        raise UserError(f"{str(which)!r} cannot be the name of an agent")
    is_named = str(which).endswith((".npz", files.COMPILED))
    exported = is_named or os.path.isfile(Path(os.path.expanduser(which), files.EXPORTED))
    file = str(which) if exported else None
    return Agent(policies.load(workdir, str(which), file, print, best=best))
