"""One of two processes that plan sessions together; run by its test.

    python planning_process.py PORT PROCESS DIRECTORY

Prints the results as JSON.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

from tests.compiling import xla_flags

PORT, PROCESS, DIRECTORY = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
os.environ["XLA_FLAGS"] = xla_flags(devices=1)

import jax  # noqa: E402

jax.distributed.initialize(f"127.0.0.1:{PORT}", 2, PROCESS, cluster_detection_method="deactivate")

from configs import default  # noqa: E402
from hackmatrix.errors import UserError  # noqa: E402
from hackmatrix.networks import files  # noqa: E402
from hackmatrix.parallel import mesh  # noqa: E402
from hackmatrix.train.config.saved import to_json  # noqa: E402
from hackmatrix.train.plan import Plan, Request, agree  # noqa: E402
from hackmatrix.train.program import Program  # noqa: E402
from hackmatrix.train.reporting.tracing import Span  # noqa: E402
from hackmatrix.train.runs import shared_path  # noqa: E402
from hackmatrix.train.runs.places import Disk, place  # noqa: E402
from hackmatrix.train.runs.shared_path import leave_sentinel  # noqa: E402
from tests.train.settings import config  # noqa: E402

SMALL = {"num_envs": 8, "num_steps": 8, "hidden_dim": 8}


def request(workdir: Path, trace: Span | None = None, **given: Any) -> Request:
    settings = {**default.get_config(), **SMALL, **given}
    return Request(settings, {**SMALL, **given}, workdir, trace)


def planned(wanted: Request) -> Plan:
    """Plans in both processes, then gives back the lease of the run."""
    plan, _ = agree(wanted)
    assert (plan.lease is None) == (PROCESS > 0)
    if plan.lease:
        plan.lease.give_back()
    return plan


def summary(plan: Plan) -> dict[str, Any]:
    return {
        "directory": str(plan.run.directory),
        "config": json.loads(to_json(plan.config)),
        "resumes": plan.resumes,
        "trace": plan.trace and [plan.trace.first, plan.trace.last],
    }


def refused(plan: Callable[[], Any]) -> str:
    try:
        plan()
    except UserError as error:
        return str(error)
    return "nothing is wrong"


def save_policy(file: Path, seed: int) -> None:
    """Writes a freshly initialised policy, drawn with this seed."""
    program = Program(config(**SMALL), mesh.over(jax.local_devices()))
    params = jax.jit(program.network.init)(jax.random.key(seed))
    env, spec = program.env, program.network.spec
    about = files.About(env.name, dict(env.observation), env.action_names, "", 0, spec)
    file.write_bytes(files.content(params, about))


def main() -> None:
    found: dict[str, Any] = {}
    own_directory = DIRECTORY / f"of_{PROCESS}"
    own_directory.mkdir()
    # The first process decides which run it is, and what is traced.
    trace = Span(2, 3) if PROCESS == 0 else None
    workdir = DIRECTORY / "runs" if PROCESS == 0 else own_directory
    found["new"] = summary(planned(request(workdir, trace)))
    if PROCESS == 0:  # as a killed process may
        leave_sentinel(place(found["new"]["directory"]))
    resume: dict[str, Any] = {"resume": "auto"} if PROCESS == 0 else {}
    found["resumed"] = summary(planned(request(workdir, total_timesteps=640, **resume)))
    (DIRECTORY / "file").touch()
    found["unwritable"] = refused(lambda: agree(request(DIRECTORY / "file")))
    found["invalid"] = refused(lambda: agree(request(DIRECTORY / "none", clip_eps=7.0, gamma=2.0)))
    different: dict[str, Any] = {"clip_eps": 7.0, "gamma": 0.9} if PROCESS == 1 else {}
    found["other settings"] = refused(lambda: agree(request(DIRECTORY / "none", **different)))

    os.chdir(own_directory)
    save_policy(own_directory / "policy.npz", seed=0)
    begun = request(DIRECTORY / "begun", start_from="policy.npz", run_name="begun")
    planned(begun)
    save_policy(own_directory / "policy.npz", seed=PROCESS)
    found["other parameters"] = refused(lambda: agree(request(DIRECTORY, start_from="policy.npz")))
    again = {**begun.given, "resume": "begun"}
    found["other parameters before a checkpoint"] = refused(
        lambda: agree(request(DIRECTORY / "begun", **again))
    )
    with patch("hackmatrix.train.plan.own_modules", lambda _: {"my_net": f"of {PROCESS}"}):
        found["other module"] = refused(lambda: agree(request(DIRECTORY)))
    before = jax.config.values["jax_enable_compilation_cache"]
    jax.config.update("jax_enable_compilation_cache", PROCESS == 0)
    found["no cache"] = refused(lambda: agree(request(DIRECTORY)))
    jax.config.update("jax_enable_compilation_cache", before)
    shared_path.PATIENCE = 0.1
    # The same relative path is a different directory for each process.
    found["unshared directory"] = refused(lambda: agree(request(Path("runs"))))
    if PROCESS == 1:
        Disk.exists = Mock(side_effect=OSError("Forbidden"))  # type: ignore[method-assign]
    found["unreadable directory"] = refused(lambda: agree(request(DIRECTORY)))
    print(json.dumps(found))
    jax.distributed.shutdown()


main()
