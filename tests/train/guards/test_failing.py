"""Runs that fail: what they leave behind, and which processes they wait for."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import jax
import pytest
from jax.errors import JaxRuntimeError

from configs import default
from hackmatrix.errors import UserError
from hackmatrix.parallel.mesh import over
from hackmatrix.train import ending, session
from hackmatrix.train.checkpointer import Checkpointer
from hackmatrix.train.guards.guard import Guard
from hackmatrix.train.guards.replicas import Diverged
from hackmatrix.train.guards.supervision import Supervision
from hackmatrix.train.loop import train
from hackmatrix.train.plan import Plan, Request
from hackmatrix.train.program import Program
from hackmatrix.train.reporting.progress import Broken
from hackmatrix.train.runs.directory import create
from hackmatrix.train.runs.lease import TakenOver
from hackmatrix.train.runs.places import place
from hackmatrix.train.runs.schedule import Schedule
from tests.train.settings import resolved
from tests.train.test_evaluator import SETTINGS, no_game, trained


@pytest.fixture(params=["disk", "bucket"])
def workdir(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A working directory on a disk, and one in a bucket."""
    return tmp_path if request.param == "disk" else request.getfixturevalue("bucket_address")


def copies(name: str) -> list[Path]:
    """The local directories of a run in a bucket."""
    return [*Path(tempfile.gettempdir()).glob(f"{name}-{os.getpid()}-*")]


def on_this_machine(workdir: Any, name: str) -> Path:
    """The local directory of a run in progress."""
    if isinstance(workdir, Path):
        return workdir / name
    (found,) = copies(name)
    return found


@pytest.mark.parametrize(
    ("error", "message", "where"),
    [
        (
            JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory"),
            "16 environments x 16 steps, evaluations of 20 games",
            "compile",
        ),
        (TypeError("of a network of one's own"), "of one's own", "compile"),
        (TypeError("of an algorithm of one's own"), "of one's own", "num_parameters"),
    ],
)
def test_a_run_that_fails_before_its_first_update_leaves_nothing(
    workdir: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str, where: str
) -> None:
    def fails(program: Program) -> None:
        (on_this_machine(workdir, "failing") / "notes").write_text("of somebody's own")
        raise error

    monkeypatch.setattr(Program, where, fails)
    with pytest.raises(
        UserError if isinstance(error, JaxRuntimeError) else TypeError, match=message
    ):
        trained(workdir, "failing", 0.0)
    assert place(workdir).names() == []
    assert copies("failing") == []


@pytest.fixture
def new_run(tmp_path: Path) -> tuple[Supervision, Plan]:
    """A run without metrics or checkpoints, which its supervisor knows of."""
    supervision = Supervision(notes=tmp_path / "notes")
    supervision.note("runs/begun")
    run = create(tmp_path / "runs", resolved(run_name="begun"))
    plan: Any = Mock(run=run, resumes=False)
    return supervision, plan


def is_forgotten(supervision: Supervision, plan: Plan) -> bool:
    assert supervision.notes
    return not plan.run.directory.exists() and supervision.notes.read_text() == ""


def test_a_supervisor_forgets_a_run_that_would_fail_again(
    new_run: tuple[Supervision, Plan],
) -> None:
    supervision, plan = new_run
    for transient in (OSError, Diverged):
        ending.after_failing(supervision, plan, transient)
        assert not is_forgotten(supervision, plan)
    ending.after_failing(supervision, plan, TypeError)
    assert is_forgotten(supervision, plan)


def test_a_supervisor_forgets_a_run_that_a_signal_ends_before_its_first_update(
    new_run: tuple[Supervision, Plan],
) -> None:
    supervision, plan = new_run
    ending.undo_on_signal(supervision, plan)
    lease: Any = plan.lease
    # Another process takes the run as soon as it is given back.
    lease.give_back.side_effect = lambda: plan.run.directory.mkdir()
    supervision.signals._undo()
    lease.give_back.assert_called_once_with()
    plan.run.directory.rmdir()  # the other process still has it
    assert is_forgotten(supervision, plan)


@pytest.mark.parametrize(("resumes", "is_ours"), [(True, True), (False, False)])
def test_a_run_that_was_resumed_or_that_another_process_has_taken_is_not_removed(
    new_run: tuple[Supervision, Plan], resumes: bool, is_ours: bool
) -> None:
    supervision, new_plan = new_run
    lease: Any = Mock(is_ours=lambda: is_ours)
    plan = Plan(new_plan.run, resumes, True, None, lease)
    ending.undo_on_signal(supervision, plan)
    supervision.signals._undo()
    ending.after_failing(supervision, plan, TypeError)
    assert plan.run.directory.exists()
    assert supervision.notes
    assert supervision.notes.read_text() == "runs/begun\n\n"


def test_a_signal_after_training_has_failed_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have taken the run over and have files there. Such a signal may come when
    another machine of a slice is lost.
    """
    supervision = Supervision()

    def fails(*_: object) -> None:
        raise OSError("a machine is lost")

    monkeypatch.setattr(session, "train", fails)
    given = {**SETTINGS, "run_name": "lost"}
    request = Request({**default.get_config(), **given}, given, tmp_path)
    with pytest.raises(OSError, match="a machine is lost"):
        session.run_session(request, no_game, supervision)
    supervision.signals._undo()
    assert (tmp_path / "lost" / "config.json").exists()
    assert "nothing to save" not in supervision.signals._words


def test_a_state_with_a_loss_that_is_not_finite_is_not_saved() -> None:
    guard, checkpointer, reporter, evaluator = Mock(), Mock(), MagicMock(), Mock()
    guard.next_chunk.side_effect = [1, 0]
    checkpointer.schedule, evaluator.is_due.return_value = Schedule(resolved()), False
    reporter.flush.side_effect = Broken("a loss is not finite")
    program, state = Mock(), Mock()
    state.learner.update = 1
    program.run.return_value = state, Mock()
    with pytest.raises(Broken):
        train(Mock(), program, guard, reporter, evaluator, checkpointer)
    checkpointer.save.assert_not_called()


def test_evaluations_and_the_last_save_get_more_time_than_a_chunk() -> None:
    supervision, seconds = Supervision(), list[float]()
    schedule = Schedule(resolved(num_envs=8, num_steps=8, total_timesteps=64, watchdog_minutes=1.0))
    guard = Guard(schedule, over(jax.devices()[:1]), supervision)
    checkpointer, program, evaluator, state = Mock(schedule=schedule), Mock(), Mock(), Mock()
    state.learner.update = 1
    checkpointer.is_due.return_value = False

    def note(*_: object) -> Any:
        seconds.append(supervision.watchdog._seconds)
        return state, Mock()

    for each in (program.run, evaluator.measure, checkpointer.finish):
        each.side_effect = note
    train(state, program, guard, MagicMock(), evaluator, checkpointer)
    assert seconds == [60, 3600, 3600]


def test_a_run_that_breaks_after_it_has_written_metrics_is_kept(
    workdir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        (on_this_machine(workdir, "broken") / "metrics.jsonl").write_text('{"step": 1}\n')
        raise Broken("a loss is not finite")

    monkeypatch.setattr(session, "train", breaks)
    with pytest.raises(Broken, match="a loss is not finite"):
        trained(workdir, "broken", 0.0)
    assert (place(workdir) / "broken" / "metrics.jsonl").read() == '{"step": 1}\n'
    assert (place(workdir) / "broken" / "config.json").exists()


def test_a_run_that_another_process_has_taken_over_is_left_to_it(
    workdir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = place(workdir) / "taken" / "owner"

    def stalls(*_: object) -> None:
        (owner / "2.json").create("{}")
        raise TakenOver("it goes on there")

    monkeypatch.setattr(session, "train", stalls)
    with pytest.raises(TakenOver):
        trained(workdir, "taken", 0.0)
    assert (owner / "2.json").exists()
    assert (place(workdir) / "taken" / "config.json").exists()


def test_a_process_that_fails_alone_does_not_wait_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may never reach the barrier of a checkpoint that is still being saved."""
    waited: list[Checkpointer] = []

    def fails(*_: object) -> None:
        monkeypatch.setattr(jax, "process_count", lambda: 2)
        raise RuntimeError("on this process alone")

    monkeypatch.setattr(session, "train", fails)
    monkeypatch.setattr(Checkpointer, "close", waited.append)
    with pytest.raises(RuntimeError, match="on this process alone"):
        trained(tmp_path, "alone", 0.0)
    assert waited == []
