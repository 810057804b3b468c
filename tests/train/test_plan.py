"""Plans of sessions: the first process makes one, and all processes receive and check it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import pytest

from configs import default
from hackmatrix.errors import UserError
from hackmatrix.train.plan import Plan, Request, agree, make_plan
from hackmatrix.train.reporting.tracing import Span
from hackmatrix.train.runs.directory import Run
from tests.envs import toy
from tests.envs.toy import Toy
from tests.train import pair

PROGRAM = Path(__file__).with_name("planning_process.py")
SMALL = {"env": "gymnax:CartPole-v1", "num_envs": 8, "num_steps": 8, "hidden_dim": 8}


def request(workdir: Path, trace: Span | None = None, **given: Any) -> Request:
    given = {**SMALL, **given}
    return Request({**default.get_config(), **given}, given, workdir, trace)


def planned(wanted: Request) -> Plan:
    """Makes a plan in one process, then gives back the lease of the run."""
    plan, _ = make_plan(wanted)
    assert plan.lease is not None
    plan.lease.give_back()
    return plan


def test_a_new_run_is_planned_as_requested(tmp_path: Path) -> None:
    plan = planned(request(tmp_path, Span(2, 3), run_name="mine", lr=1e-3))
    assert plan.run.directory == tmp_path / "mine"
    assert (plan.resumes, plan.trace) == (False, Span(2, 3))
    assert (plan.config.lr, plan.config.num_envs) == (1e-3, 8)
    assert json.loads((tmp_path / "mine/config.json").read_text())["lr"] == 1e-3


def test_a_plan_is_reported_before_the_first_files_of_its_run_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal can then remove the run while they are written; else a run that never began would
    be left behind.
    """
    events: list[str] = []
    monkeypatch.setattr(f"{Run.__module__}.write_down", lambda run: events.append("written"))
    plan, _ = make_plan(
        request(tmp_path, run_name="mine"),
        lambda plan: events.append(f"{plan.run.name}, {'held' if plan.lease else 'not held'}"),
    )
    assert events == ["mine, held", "written"]
    assert plan.lease is not None
    plan.lease.give_back()


def test_a_resumed_run_has_its_saved_settings_but_for_those_given(tmp_path: Path) -> None:
    first = planned(request(tmp_path, run_name="mine", lr=1e-3, gamma=0.5))
    settings = {**default.get_config(), "resume": "mine", "total_timesteps": 6400}
    again = planned(Request(settings, {"total_timesteps": 6400}, tmp_path))
    assert again.resumes
    assert again.run.directory == first.run.directory
    assert (again.config.lr, again.config.gamma) == (1e-3, 0.5)
    assert again.config.total_timesteps == 6400
    saved = (tmp_path / "mine/config.json").read_text()
    assert json.loads(saved)["total_timesteps"] == first.config.total_timesteps


def test_given_settings_are_kept_and_automatically_chosen_ones_are_marked(tmp_path: Path) -> None:
    planned(request(tmp_path, run_name="mine", lr=1e-3))
    settings = {**default.get_config(), "resume": "mine"}
    for num_steps in (16, 32):
        plan = planned(Request(settings, {"num_steps": num_steps}, tmp_path))
        assert (plan.config.num_steps, plan.config.num_envs, plan.config.lr) == (num_steps, 8, 1e-3)
        assert plan.config.chosen == ("num_minibatches", "update_epochs")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": 1}, "seed=1 cannot be changed"),
        ({"hidden_dim": 24}, "hidden_dim=24 cannot be changed: this run was begun with 8;"),
        ({"run_name": "yours"}, "run_name=yours is not the run to resume, mine"),
    ],
)
def test_a_run_cannot_be_resumed_as_a_different_one(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    planned(request(tmp_path, run_name="mine"))
    before = (tmp_path / "mine/config.json").read_text()
    with pytest.raises(UserError, match=message):
        make_plan(request(tmp_path, **{"run_name": "mine", "resume": "mine", **given}))
    assert (tmp_path / "mine/config.json").read_text() == before


def test_a_config_file_that_describes_another_run_is_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later revision of a run's own file may; an unattended run then continues as it was."""
    first = planned(request(tmp_path, run_name="mine", gamma=0.5))
    by_file: dict[str, Any] = {"hidden_dim": 16, "gamma": 0.7, "num_envs": 16}
    again = request(tmp_path, resume="mine", run_name="mine", **by_file, lr=1e-3)
    plan = planned(replace(again, from_file=frozenset(by_file)))
    before = {**first.config.settings(), "resume": "mine", "lr": 1e-3}
    assert plan.config.settings() == before
    assert "another run (hidden_dim=16): it is ignored" in capsys.readouterr().out
    of_this_run = request(tmp_path, resume="mine", run_name="mine", gamma=0.7)
    plan = planned(replace(of_this_run, from_file=frozenset({*SMALL, "gamma"})))
    assert plan.config.gamma == 0.7
    assert not capsys.readouterr().out


def test_resume_auto_begins_a_run_if_none_exists(tmp_path: Path) -> None:
    plan = planned(request(tmp_path, resume="auto", run_name="mine"))
    assert (plan.resumes, plan.run.name) == (False, "mine")
    assert planned(request(tmp_path, resume="auto", run_name="mine")).resumes


def test_a_run_may_be_named_by_a_link_to_it(tmp_path: Path) -> None:
    planned(request(tmp_path, run_name="mine"))
    (tmp_path / "latest").symlink_to("mine")
    for name in ("auto", "latest", "mine"):
        plan = planned(request(tmp_path, resume=name, run_name="latest"))
        assert (plan.resumes, plan.run.name, plan.config.run_name) == (True, "mine", "mine")


def test_a_plan_is_reported_as_soon_as_it_is_made(tmp_path: Path) -> None:
    reported: list[tuple[str, bool]] = []

    def report(plan: Plan) -> None:
        reported.append((plan.run.name, plan.resumes))
        assert plan.lease
        plan.lease.give_back()

    for _ in range(2):
        agree(request(tmp_path, resume="auto", run_name="mine"), report)
    assert reported == [("mine", False), ("mine", True)]


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making it may take a while, and what it declares is checked then."""
    make = Mock(side_effect=Toy)
    monkeypatch.setattr(toy, "make", make, raising=False)
    plan, program = agree(request(tmp_path, env="tests.envs.toy:make"))
    assert plan.lease
    plan.lease.give_back()
    make.assert_called_once()
    assert isinstance(program.env, Toy)


@pytest.mark.parametrize(
    ("given", "trace", "message"),
    [
        ({"lr": -1.0, "gamma": 2.0}, None, r"lr=-1\.0[^\n]*\ngamma=2\.0"),
        ({"env": "gymnax:Nothing-v0"}, None, "Nothing-v0"),
        ({"network": "conv"}, None, "network=conv .*gymnax:CartPole-v1"),
        ({"network": "no_module:Net"}, None, "no_module"),
        ({"algorithm": "no_module:Rule"}, None, "no_module"),
        ({"total_timesteps": 640}, Span(10, 11), "updates 10 to 11, but the run has 10"),
        ({"resume": "nobody"}, None, "there is no run 'nobody'"),
    ],
)
def test_an_impossible_run_is_refused_before_a_directory_is_created(
    tmp_path: Path, given: dict[str, Any], trace: Span | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        make_plan(request(tmp_path, trace, **given))
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_refused_where_jit_is_disabled(tmp_path: Path) -> None:
    with jax.disable_jit(), pytest.raises(UserError, match=r"JAX_DISABLE_JIT .*: unset it"):
        make_plan(request(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_configuration_that_lacks_settings_is_refused_with_the_name_of_one(
    tmp_path: Path,
) -> None:
    with pytest.raises(UserError, match="seed is missing: start the configuration from"):
        make_plan(Request({"lr": 1e-3}, {"lr": 1e-3}, tmp_path))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


@pytest.fixture(scope="module")
def found(directory: Path) -> list[dict[str, Any]]:
    """The results of each of two processes that plan together."""
    return pair.results(PROGRAM, directory)


def test_all_processes_have_the_plan_of_the_first(
    directory: Path, found: list[dict[str, Any]]
) -> None:
    first, second = (each["new"] for each in found)
    assert first == second
    run = Path(first["directory"])
    assert run.parent == directory / "runs"
    assert {each.name for each in run.iterdir()} == {"config.json", "provenance.json", "owner"}
    assert first["trace"] == [2, 3]
    assert not first["resumes"]
    assert [each.name for each in (directory / "of_1").iterdir()] == ["policy.npz"]  # its own file


def test_it_is_enough_to_tell_the_first_process_to_resume(found: list[dict[str, Any]]) -> None:
    first, second = (each["resumed"] for each in found)
    assert first == second
    assert first["resumes"]
    assert first["directory"] == found[0]["new"]["directory"]
    assert first["config"]["total_timesteps"] == 640


def test_all_processes_report_that_a_run_cannot_be_created(
    directory: Path, found: list[dict[str, Any]]
) -> None:
    reason = f"cannot create a run in {directory / 'file'}"
    assert found[0]["unwritable"].startswith(reason)
    assert found[0]["unwritable"].endswith("; choose another --workdir")
    assert found[1]["unwritable"].startswith(f"process 0: {reason}")


def test_mistakes_are_reported_by_all_processes_before_anything_is_written(
    directory: Path, found: list[dict[str, Any]]
) -> None:
    mistakes = [
        "gamma=2.0 must be a number from 0 to 1",
        "clip_eps=7.0 must be a number between 0 and 1",
    ]
    assert found[0]["invalid"].splitlines() == mistakes
    assert found[1]["invalid"].splitlines() == [f"process 0: {mistakes[0]}", mistakes[1]]
    assert not (directory / "none").exists()  # nor where one process has other settings


def test_a_process_with_other_settings_is_named_with_each_that_differs(
    found: list[dict[str, Any]],
) -> None:
    for each in found:  # although clip_eps = 7.0 is invalid anyway
        assert each["other settings"].splitlines() == [
            "process 1 has clip_eps = 7.0, the others have 0.2",
            "process 1 has gamma = 0.9, the others have 0.99",
        ]


def test_processes_that_would_start_from_different_parameters_or_modules_are_refused(
    found: list[dict[str, Any]],
) -> None:
    for each in found:
        for when in ("other parameters", "other parameters before a checkpoint"):
            assert "process 1 has parameters to start from = " in each[when]
        assert each["other module"] == "process 1 has module my_net = of 1, the others have of 0"


def test_processes_are_refused_if_only_some_cache_compiled_programs(
    found: list[dict[str, Any]],
) -> None:
    """One would look up a cached program and wait for the others to do the same."""
    for each in found:
        assert each["no cache"].startswith("process 1 has compiled programs cached (JAX_COMP")


def test_a_directory_that_the_processes_do_not_share_is_refused(
    directory: Path, found: list[dict[str, Any]]
) -> None:
    for each in found:
        assert "what process 0 writes there is not seen by process 1;" in each["unshared directory"]


def test_all_processes_report_that_one_cannot_read_the_run(found: list[dict[str, Any]]) -> None:
    first, second = (each["unreadable directory"] for each in found)
    assert re.fullmatch(r"\S+ cannot be read: Forbidden", second)
    assert first == f"process 1: {second}"


def test_a_run_whose_processes_are_refused_leaves_nothing_behind(
    directory: Path, found: list[dict[str, Any]]
) -> None:
    assert [*(directory / "of_0/runs").iterdir()] == []
    names = {each.name for each in directory.iterdir()}
    assert names == {"runs", "begun", "file", "of_0", "of_1"}
    assert [each.name for each in (directory / "runs").iterdir()] == [
        Path(found[0]["new"]["directory"]).name
    ]
