"""The last state of a run is saved; if that fails, it is reported and the run can be resumed."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import pytest

from configs import default
from hackmatrix.exit_codes import DONE, RETRY
from hackmatrix.parallel import mesh
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train import checkpointer as checkpointers
from hackmatrix.train.checkpointer import Checkpointer
from hackmatrix.train.checkpoints.checkpoints import Checkpoints
from hackmatrix.train.plan import Request
from hackmatrix.train.program import Program
from hackmatrix.train.reporting.evaluator import EvaluationResult
from hackmatrix.train.runs.clock import Clock
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.places import Disk
from hackmatrix.train.session import run_session
from tests.train.settings import config

CARTPOLE = {
    "env": "gymnax:CartPole-v1", "num_envs": 8, "num_steps": 8, "hidden_dim": 8, "num_layers": 1,
    "total_timesteps": 256, "eval_episodes": 8, "eval_interval_minutes": 0.0,
}  # fmt: skip


def no_game(*_: Any) -> Any:
    raise AssertionError("no games are played with a state that is not saved")


@pytest.fixture
def save_attempts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps of all attempts to save. The first two fail, and retries follow without a pause."""
    attempts: list[int] = []
    save = Checkpoints.save

    def fails_at_first(self: Checkpoints, step: int, *content: Any) -> None:
        attempts.append(step)
        if len(attempts) > 2:
            save(self, step, *content)

    monkeypatch.setattr(Checkpoints, "save", fails_at_first)
    monkeypatch.setattr(checkpointers, "_PAUSE", 0.0)
    return attempts


@pytest.fixture
def new_run(tmp_path: Path) -> tuple[Checkpointer, TrainState]:
    """The checkpointer of a new run, and its first state."""
    settings = config(**CARTPOLE)
    program = Program(settings, mesh.over(jax.devices()[:1]))
    checkpointer = Checkpointer(Run(tmp_path, settings), program, Clock(), print)
    state = checkpointer.restore()
    return checkpointer, state


def test_no_checkpoint_is_saved_while_its_metrics_cannot_be(tmp_path: Path) -> None:
    settings, messages = config(**CARTPOLE), list[str]()
    obstacles = ["the files of the run cannot be copied", "the same", None]
    program = Program(settings, mesh.over(jax.devices()[:1]))
    checkpointer = Checkpointer(
        Run(tmp_path, settings), program, Clock(), messages.append, lambda: obstacles.pop(0)
    )
    state = checkpointer.restore()
    for update in (1, 2, 3):
        checkpointer.save(update, state)
        assert checkpointer.is_unsaved(update) == (update < 3)
    checkpointer.close()
    assert checkpointer.steps() == [192]
    assert messages[0] == "The state at step 64 is not saved: the files of the run cannot be copied"
    assert len(messages) == 2


@pytest.mark.parametrize("obstacle", [None, "the bucket is away"])
def test_the_save_interval_restarts_after_a_save_and_after_a_failed_attempt(
    obstacle: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoints, "save", Mock())
    settings = config(**CARTPOLE, save_interval_minutes=10.0)
    clock, minutes = Clock(), [0.0]
    monkeypatch.setattr(clock, "seconds", lambda: 60 * minutes[-1])
    checkpointer = Checkpointer(Run(tmp_path, settings), Mock(), clock, print, lambda: obstacle)
    due = []
    for update, minute in enumerate((9.0, 11.0, 12.0, 20.0, 22.0), start=1):
        minutes.append(minute)
        if checkpointer.is_due(update):
            checkpointer.save(update, Mock())
            due.append(minute)
    assert due == [11, 22]


def test_the_last_save_is_retried_until_it_succeeds(
    new_run: tuple[Checkpointer, TrainState],
    save_attempts: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkpointer, state = new_run
    checkpointer.finish(1, state)
    assert not checkpointer.is_unsaved(1)
    assert save_attempts == [64] * 3
    retrying = "Could not save the last state; retrying for 5 minutes"
    assert capsys.readouterr().out.splitlines().count(retrying) == 1
    assert checkpointer.steps() == [64]


def test_the_last_save_is_retried_even_if_it_took_long_to_fail(
    monkeypatch: pytest.MonkeyPatch, new_run: tuple[Checkpointer, TrainState]
) -> None:
    checkpointer, state = new_run
    monkeypatch.setattr(checkpointers, "_PATIENCE", 0.2)
    monkeypatch.setattr(checkpointers, "_PAUSE", 0.0)
    save = Checkpoints.save

    def fails_late(*_: Any) -> None:
        monkeypatch.setattr(Checkpoints, "save", save)
        time.sleep(0.3)

    monkeypatch.setattr(Checkpoints, "save", fails_late)
    checkpointer.finish(1, state)
    assert not checkpointer.is_unsaved(1)


def test_a_state_that_could_not_be_saved_is_known_to_be_unsaved(
    new_run: tuple[Checkpointer, TrainState], tmp_path: Path
) -> None:
    checkpointer, state = new_run
    (tmp_path / "checkpoints").write_text("a file where the directory should be")
    checkpointer.save(1, state)
    assert checkpointer.is_unsaved(1)


def test_a_state_that_was_only_restored_is_not_saved_again(
    new_run: tuple[Checkpointer, TrainState],
) -> None:
    checkpointer, state = new_run
    checkpointer.finish(0, state)
    assert checkpointer.steps() == []


def test_a_run_resumed_from_an_older_checkpoint_takes_no_damaged_one_for_its_newest(
    new_run: tuple[Checkpointer, TrainState], tmp_path: Path
) -> None:
    checkpointer, state = new_run
    for update in (1, 2):
        checkpointer.save(update, state)
    checkpointer.close()
    record = tmp_path / "checkpoints/128/record/metadata"
    record.write_text("")
    settings = config(**CARTPOLE)
    program = Program(settings, mesh.over(jax.devices()[:1]))
    resumed = Checkpointer(Run(tmp_path, settings), program, Clock(), print)
    resumed.restore()
    assert resumed.schedule.steps == 64
    assert resumed.describe_newest() == "the checkpoint at step 64 is intact"
    assert (tmp_path / "checkpoints/128.aside-1").is_dir()


def test_a_run_continues_when_its_checkpoints_cannot_be_listed(
    new_run: tuple[Checkpointer, TrainState],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stale(_: Disk) -> list[str]:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    checkpointer, _ = new_run
    monkeypatch.setattr(Disk, "names", stale)
    assert not checkpointer.is_due(1, EvaluationResult({}, 1.0))
    (message,) = capsys.readouterr().out.splitlines()
    assert message.startswith("Cannot compare this agent with the best checkpoint: ")
    assert "Stale file handle" in message
    assert checkpointer.describe_newest().startswith("the saved checkpoints cannot be listed: ")


@pytest.mark.usefixtures("save_attempts")
def test_a_run_whose_last_state_cannot_be_saved_is_not_reported_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkpointers, "_PATIENCE", -1.0)
    settings = dict(default.get_config())
    request = Request({**settings, **CARTPOLE}, CARTPOLE, tmp_path)
    assert run_session(request, no_game) == RETRY
    output = capsys.readouterr().out
    assert "The last state could not be saved" in output
    assert "Done" not in output
    assert not [*tmp_path.glob("*/evaluation.json")]


def test_a_run_whose_time_ran_out_during_a_save_trains_no_further_when_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds, save = [0.0], Checkpoints.save

    def takes_long(self: Checkpoints, *content: Any) -> None:
        save(self, *content)
        seconds[0] += 40

    monkeypatch.setattr(Checkpoints, "save", takes_long)
    monkeypatch.setattr(Clock, "trained", lambda _: seconds[0])
    given = {**CARTPOLE, "run_name": "run", "time_limit_minutes": 1.0, "log_interval": 1,
             "save_interval": 1}  # fmt: skip
    metrics = []
    for more in ({}, {"resume": "run"}):
        request = Request({**default.get_config(), **given, **more}, {**given, **more}, tmp_path)
        assert run_session(request, no_game) == DONE
        metrics.append((tmp_path / "run" / "metrics.jsonl").read_text())
    assert len(metrics[0].splitlines()) == 3
    assert metrics[1] == metrics[0]
