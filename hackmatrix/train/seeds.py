"""Trains several agents that differ only in their seeds, and averages their results: a claim about
learning needs more than one seed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hackmatrix import streams
from hackmatrix.envs import make
from hackmatrix.errors import UserError
from hackmatrix.exit_codes import DONE
from hackmatrix.parallel.agreement import is_first, on_first
from hackmatrix.train.config import Config, faults
from hackmatrix.train.config.rules import AUTO, SEED, SEEDS
from hackmatrix.train.config.saved import of_another_run
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.plan import Request
from hackmatrix.train.reporting import results
from hackmatrix.train.reporting.replays import Play
from hackmatrix.train.runs.directory import EVALUATION, find, is_run, must_be_free, starts
from hackmatrix.train.runs.places import place
from hackmatrix.train.runs.protocol import Place, steps_in
from hackmatrix.train.session import FOR_GAMES, run_session

# Settings that do not change which agent results.
_OF_A_RUN_ALONE = FOR_GAMES | {
    "kernels", "log_interval", "save_interval_minutes", "save_interval", "keep_checkpoints",
    "keep_milestones", "watchdog_minutes", "replica_check_interval", "eval_interval_minutes",
    "eval_games", "wandb", "rewind", "project", "entity", "no_artifact",
}  # fmt: skip


def run_seeds(request: Request, play: Play, supervision: Supervision) -> int:
    """Trains `num_seeds` agents one after the other, in the runs NAME-seedN, and prints their mean
    results; returns the exit code. The same command again does what is left: a run that was stopped
    goes on, and a finished one stays as it is, if it was trained with the settings asked for.
    """
    settings = request.settings
    _check(settings)
    name, first, count = (settings[each] for each in ("run_name", "seed", "num_seeds"))
    workdir = place(request.workdir)
    runs = {f"{name}-seed{seed}": seed for seed in range(first, first + count)}
    requests = {
        run: _with(request, seed=seed, run_name=run, num_seeds=1, resume=None)
        for run, seed in runs.items()
    }

    def left() -> list[str]:
        return [run for run, one in requests.items() if not _is_done(workdir / run, one.given)]

    for run in on_first(left):
        which = run if on_first(functools.partial(is_run, workdir / run)) else None
        one, alone = _with(requests[run], resume=which), replace(supervision, notes=None)
        code = run_session(one, play, alone, is_last=False)
        if code != DONE:
            if is_first():
                streams.say("  all seeds    the same command again trains what is left of them")
            return code
    if is_first():
        _tell(workdir, name, [*runs])
    return DONE


def _check(settings: Mapping[str, Any]) -> None:
    """Raises UserError for what would otherwise fail only after some seeds are trained."""
    if not settings["run_name"] or settings["resume"] not in (None, AUTO):
        raise UserError(
            "num_seeds needs --config.run_name=NAME, and no --resume but auto: the same command "
            "again continues where it stopped"
        )
    if settings["eval_episodes"] == 0:
        raise UserError("num_seeds compares final evaluations: eval_episodes must not be 0")
    if not SEEDS.holds(settings["num_seeds"]):
        raise UserError(faults.wrong("num_seeds", settings["num_seeds"]))
    last = settings["seed"] + settings["num_seeds"] - 1
    if not SEED.holds(last):
        raise UserError(f"the last seed would be {last}, but a seed must be {SEED.must_be}")


def _with(request: Request, **values: Any) -> Request:
    return replace(
        request, settings={**request.settings, **values}, given={**request.given, **values}
    )


def _is_done(there: Place, given: Mapping[str, Any]) -> bool:
    """Whether a run was trained to its end with the given settings, and its last state evaluated.
    Raises UserError if the run cannot get there by resuming.
    """
    if not is_run(there):
        must_be_free(there)
        return False
    found = find(there.parent, there.name)
    assert found
    for name in of_another_run(found.config, given):
        raise _not_comparable(found.config, "was begun", name, given)
    if (evaluated := (results.read(there / EVALUATION) or {}).get("step")) is None:
        return False
    if max(steps_in(found.checkpoints), default=evaluated) != evaluated:
        return False
    changed = _changed(found.config, given)
    next_step = evaluated + found.config.batch_size
    # If its time limit ended it earlier, only its checkpoint tells.
    is_at_end = next_step > found.config.total_timesteps
    if not _goes_on(found.config, given, next_step, is_at_end):
        _check_is_alike(found.config, given, changed, is_at_end)
    return is_at_end and not changed


def _changed(config: Config, given: Mapping[str, Any]) -> set[str]:
    """Returns the names of the given settings whose values differ from those of the run."""
    before = config.settings()
    return {
        name
        for name in given.keys() & before.keys() - {"resume", "run_name"}
        if given[name] != before[name] and not (given[name] is None and name in config.chosen)
    }


def _goes_on(config: Config, given: Mapping[str, Any], next_step: int, is_at_end: bool) -> bool:
    """Whether a run that has ended would train on with the given settings. It ended at its last
    step if `is_at_end`, else by its time limit; `next_step` is where its next update would end.
    """
    asked = {**config.settings(), **given}
    if is_at_end:
        return next_step <= asked["total_timesteps"]
    limit, now = config.time_limit_minutes, asked["time_limit_minutes"]
    return limit is None or now is None or now > limit


def _check_is_alike(
    config: Config, given: Mapping[str, Any], changed: set[str], is_at_end: bool
) -> None:
    """Raises UserError if a finished run was trained with other settings than those to come."""
    alike = set(_OF_A_RUN_ALONE)
    if is_at_end:
        alike.add("time_limit_minutes")
    steps = given.get("total_timesteps", config.total_timesteps)
    if steps // config.batch_size == config.total_timesteps // config.batch_size:
        alike.add("total_timesteps")
    for name in sorted(changed - alike):
        raise _not_comparable(config, "has finished training", name, given)


def _not_comparable(config: Config, what: str, name: str, given: Mapping[str, Any]) -> UserError:
    return UserError(
        f"{given['run_name']} {what} with {name}={getattr(config, name)!r}, so it is not "
        f"comparable with runs of {name}={given[name]!r}: choose another run_name"
    )


def _tell(workdir: Place, name: str, runs: list[str]) -> None:
    """Prints the means over the runs, and saves them in NAME-seeds.json."""
    agents = []
    for file in (workdir / run / EVALUATION for run in runs):
        if not (played := results.read(file)):
            raise UserError(f"{file} is missing or damaged: the same command plays its games again")
        agents.append(results.from_json(played)["agent"])
    found = [run for run in (find(workdir, each) for each in runs) if run]
    env = make(found[0].config.env)
    means = {"agents": results.over_seeds(agents, env)}
    file = workdir / f"{name}-seeds.json"
    file.write(json.dumps({"runs": runs, **results.as_json(means)}, indent=2) + "\n")
    streams.say(
        f"\nMeans over {len(runs)} seeds with 95% intervals (Student's t, no narrower than "
        f"those of the agents on average), in {file}"
    )
    for line in results.table(means, env):
        streams.say(f"  {line}")
    last = [start for run in found for start in starts(run)[-1:]]
    used = [start["own_modules"] for start in last if "own_modules" in start]
    for module in sorted(set().union(*used)):
        if len({each.get(module) for each in used}) > 1:
            streams.say(f"  The module {module} has changed between these runs.")
