"""The plan of a session: made by the first process, broadcast once, and checked by all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hackmatrix import streams
from hackmatrix.compile_cache import programs
from hackmatrix.compile_cache.sources import short_hash, source_hash
from hackmatrix.errors import UserError
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.agreement import gather_results, is_first, on_first
from hackmatrix.train.config import Config, resolve
from hackmatrix.train.config.rules import RUN_NAME
from hackmatrix.train.config.saved import from_json, of_another_run, resumed, to_json
from hackmatrix.train.guards.consistency import compare
from hackmatrix.train.guards.doctor import NOT_COMPILED
from hackmatrix.train.program import Program
from hackmatrix.train.reporting import metric_catalogue, weights_and_biases
from hackmatrix.train.reporting.tracing import Span, check_span
from hackmatrix.train.runs import directory
from hackmatrix.train.runs import lease as leases
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.lease import Lease
from hackmatrix.train.runs.places import place, without_alias
from hackmatrix.train.runs.protocol import Place, one_line_errors
from hackmatrix.train.runs.provenance import own_modules, versions
from hackmatrix.train.runs.shared_path import blind_processes, remove_sentinels


@dataclass(frozen=True)
class Request:
    """What a user asks for: all settings, those among them that were `given` explicitly, and which
    updates to trace. `from_file` names the given settings that only a configuration file sets.
    """

    settings: Mapping[str, Any]
    given: Mapping[str, Any]
    workdir: Path | Place
    trace: Span | None = None
    from_file: frozenset[str] = frozenset()

    def given_to(self, saved: Config, say: Callable[[str], None]) -> dict[str, Any]:
        """Returns the given settings to resume a saved run with. A configuration file for another
        run, such as that of a later revision, is ignored as a whole, with a message.
        """
        by_file = {name: self.given[name] for name in sorted(self.from_file)}
        if not (other := of_another_run(saved, by_file)):
            return dict(self.given)
        names = ", ".join(f"{name}={value!r}" for name, value in other.items())
        say(
            f"the configuration file describes another run ({names}): it is ignored, and this run "
            "keeps its own settings"
        )
        return {name: value for name, value in self.given.items() if name not in by_file}


@dataclass(frozen=True)
class Plan:
    """The run, whether it is resumed, whether it `begins` (it has no checkpoint yet), and which
    updates to trace. Only the first process has the lease on the run.
    """

    run: Run
    resumes: bool
    begins: bool
    trace: Span | None
    lease: Lease | None

    @property
    def config(self) -> Config:
        return self.run.config

    @property
    def can_be_undone(self) -> bool:
        """Whether this process created the run and still owns it."""
        return not self.resumes and self.lease is not None and self.lease.is_ours()


def agree(
    request: Request, has_planned: Callable[[Plan], None] = lambda plan: None
) -> tuple[Plan, Program]:
    """Returns the plan of all processes and their training program, not compiled yet. The first
    process calls `has_planned` as soon as it owns the run, before it writes anything there; from
    then on the caller has to release the lease.
    """
    compare(gather_results(lambda: _asked_for(request)))  # before a directory is made
    made: list[tuple[Plan, Program]] = []

    def make() -> dict[str, Any]:
        made.append(make_plan(request, has_planned))
        return _as_json(made[0][0])

    told = on_first(make)

    def prepare() -> dict[str, str]:
        if not made:
            plan = _from_json(told)
            made.append((plan, Program(plan.config, meshes.over())))
        return _facts(*made[0]) if jax.process_count() > 1 else {}

    try:
        compare(gather_results(prepare))
        _check_is_shared(made[0][0].run)
    except UserError:
        if made and made[0][0].can_be_undone:
            with contextlib.suppress(OSError, UserError):
                directory.discard(made[0][0].run)
        raise
    return made[0]


def make_plan(
    request: Request, has_planned: Callable[[Plan], None] = lambda plan: None
) -> tuple[Plan, Program]:
    """Makes the plan on one process, which creates or resumes the run's directory. Also returns the
    training program, which is built first to check the configuration.
    """
    if jax.config.jax_disable_jit:  # type: ignore[attr-defined]
        raise UserError(NOT_COMPILED)
    # A custom configuration may lack any setting; `resolve` reports that.
    which, name = request.settings.get("resume"), _name(request)
    found = directory.find(request.workdir, which, name) if which else None
    if found and name not in (None, found.name):
        told = request.settings["run_name"]
        what = f"run_name={told}" if told == name else f"run_name={told}, a link to {name},"
        raise UserError(f"{what} is not the run to resume, {found.name}; omit run_name")
    values = request.settings
    if found:
        given = request.given_to(found.config, streams.say)
        if given.get("run_name"):
            given["run_name"] = name
        values = resumed(found.config, {**given, "resume": which})
    config = resolve(values, jax.default_backend(), jax.device_count())
    # Everything that may be missing is checked before a directory is made.
    program = Program(config, meshes.over())
    metric_catalogue.check(program.env, program.algorithm)
    begins = not found or not directory.has_checkpoint(found)
    if not found:
        check_span(request.trace, config.num_updates)
    if begins:
        _ = program.params_to_start_from
    if config.wandb:
        weights_and_biases.check()
    planned: list[Plan] = []

    def hold(run: Run) -> None:
        planned.append(Plan(run, found is not None, begins, request.trace, _take(run)))
        has_planned(planned[0])

    if found:
        hold(found)
        run = directory.resume(found, config)
    else:
        run = directory.create(request.workdir, config, hold)
    return replace(planned[0], run=run), program


def _name(request: Request) -> Any:
    """Returns the requested name of the run; for a link beside a run, the name of that run."""
    name = request.settings.get("run_name")
    if not (isinstance(name, str) and RUN_NAME.holds(name)):
        return name
    return without_alias(place(request.workdir) / name).name


def _take(run: Run) -> Lease:
    with one_line_errors(f"the run {run.place} cannot be written to"):
        run.place.try_to_write()
        return leases.take(run.place, streams.say)


def _asked_for(request: Request) -> dict[str, str]:
    """Returns the settings that must be the same on all processes: all but `resume`, as a
    supervisor may resume only some of them.
    """
    return {name: repr(value) for name, value in request.settings.items() if name != "resume"}


def _facts(plan: Plan, program: Program) -> dict[str, str]:
    """Returns what else must be the same on all processes."""
    facts = {
        **versions(),
        "source files": source_hash(),
        **{f"module {name}": each for name, each in own_modules(plan.run.config).items()},
        "compiled program": program.name,
        # Either all processes look up cached programs, or none does.
        "compiled programs cached (JAX_COMPILATION_CACHE_DIR)": str(programs.is_cache_on()),
    }
    if plan.begins:  # each process reads the file itself, and training trusts that they agree
        leaves = map(np.asarray, jax.tree.leaves(program.params_to_start_from))
        facts["parameters to start from"] = short_hash(b"".join(leaf.tobytes() for leaf in leaves))
    return facts


def _check_is_shared(run: Run) -> None:
    """Raises UserError unless all processes see the run's directory."""
    if jax.process_count() == 1:
        return
    if is_first():
        with contextlib.suppress(OSError):  # the others would wait; at worst old ones stay
            remove_sentinels(run.place)
    if blind := blind_processes(run.place):
        they = ", ".join(f"process {each}" for each in blind)
        raise UserError(
            f"{run.place} is not shared by all processes: what process 0 writes there is not seen "
            f"by {they}; use a bucket, gs://BUCKET/runs, or a disk that all mount"
        )


def _as_json(plan: Plan) -> dict[str, Any]:
    return {
        "directory": str(plan.run.directory),
        "bucket": plan.run.bucket,
        "config": to_json(plan.config),
        "resumes": plan.resumes,
        "begins": plan.begins,
        "trace": asdict(plan.trace) if plan.trace else None,
    }


def _from_json(told: Mapping[str, Any]) -> Plan:
    run = Run(Path(told["directory"]), from_json(told["config"]), told["bucket"])
    trace = Span(**told["trace"]) if told["trace"] else None
    return Plan(run, told["resumes"], told["begins"], trace, lease=None)
