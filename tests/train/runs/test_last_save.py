"""The last state of a run is kept, or it is said that it is not, and the run is to be continued."""

from __future__ import annotations

import errno
import os
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
    raise AssertionError("no games are played with a state that is not kept")


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps at which nothing could be saved, as the disk was full; nobody waits meanwhile."""
    refused: list[int] = []
    save = Checkpoints.save

    def fails_at_first(self: Checkpoints, step: int, *content: Any) -> None:
        refused.append(step)
        if len(refused) > 2:
            save(self, step, *content)

    monkeypatch.setattr(Checkpoints, "save", fails_at_first)
    monkeypatch.setattr(checkpointers, "_PAUSE", 0.0)
    return refused


@pytest.fixture
def trained(tmp_path: Path) -> tuple[Checkpointer, TrainState]:
    """The checkpointer of a new run, and a state of it."""
    settings = config(**CARTPOLE)
    program = Program(settings, mesh.over(jax.devices()[:1]))
    checkpointer = Checkpointer(Run(tmp_path, settings), program, Clock(), print)
    state = checkpointer.restore()
    return checkpointer, state


def test_there_is_no_checkpoint_whose_metrics_are_not_kept(tmp_path: Path) -> None:
    settings, said = config(**CARTPOLE), list[str]()
    ways = ["the files of the run cannot be copied", "the same", None]
    program = Program(settings, mesh.over(jax.devices()[:1]))
    checkpointer = Checkpointer(
        Run(tmp_path, settings), program, Clock(), said.append, lambda: ways.pop(0)
    )
    state = checkpointer.restore()
    for update in (1, 2, 3):
        checkpointer.save(update, state)
        assert checkpointer.is_unsaved(update) == (update < 3)
    checkpointer.close()
    assert checkpointer.steps() == [192]
    assert said[0] == "The state at step 64 is not saved: the files of the run cannot be copied"
    assert len(said) == 2


@pytest.mark.parametrize("obstacle", [None, "the bucket is away"])
def test_the_next_save_is_due_minutes_after_the_last_one_or_what_stood_in_its_way(
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


def test_what_prevents_the_last_save_for_a_while_costs_nothing(
    trained: tuple[Checkpointer, TrainState],
    refusing: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkpointer, state = trained
    checkpointer.finish(1, state)
    assert not checkpointer.is_unsaved(1)
    assert refusing == [64] * 3
    again = "Could not save the last state; retrying for 5 minutes"
    assert capsys.readouterr().out.splitlines().count(again) == 1
    assert checkpointer.steps() == [64]


def test_a_state_that_could_not_be_saved_is_known_to_be_unsaved(
    trained: tuple[Checkpointer, TrainState], tmp_path: Path
) -> None:
    checkpointer, state = trained
    (tmp_path / "checkpoints").write_text("a file where the directory should be")
    checkpointer.save(1, state)
    assert checkpointer.is_unsaved(1)


def test_a_state_that_was_only_restored_is_not_saved_again(
    trained: tuple[Checkpointer, TrainState],
) -> None:
    checkpointer, state = trained
    checkpointer.finish(0, state)
    assert checkpointer.steps() == []


def test_a_run_that_goes_on_from_an_older_checkpoint_takes_no_damaged_one_for_its_newest(
    trained: tuple[Checkpointer, TrainState], tmp_path: Path
) -> None:
    checkpointer, state = trained
    for update in (1, 2):
        checkpointer.save(update, state)
    checkpointer.close()
    record = tmp_path / "checkpoints/128/record/metadata"
    record.write_text("")
    settings = config(**CARTPOLE)
    program = Program(settings, mesh.over(jax.devices()[:1]))
    again = Checkpointer(Run(tmp_path, settings), program, Clock(), print)
    again.restore()
    assert again.schedule.steps == 64
    assert again.describe_newest() == "the checkpoint at step 64 is intact"
    assert (tmp_path / "checkpoints/128.aside-1").is_dir()


def test_where_nobody_can_look_at_the_checkpoints_a_run_that_measures_itself_goes_on(
    trained: tuple[Checkpointer, TrainState],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stale(_: Disk) -> list[str]:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    checkpointer, _ = trained
    monkeypatch.setattr(Disk, "names", stale)
    assert not checkpointer.is_due(1, EvaluationResult({}, 1.0))
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith("Cannot compare this agent with the best checkpoint: ")
    assert "Stale file handle" in said
    assert checkpointer.describe_newest().startswith("the saved checkpoints cannot be listed: ")


@pytest.mark.usefixtures("refusing")
def test_a_run_whose_last_state_cannot_be_saved_is_not_called_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkpointers, "_PATIENCE", -1.0)
    settings = dict(default.get_config())
    request = Request({**settings, **CARTPOLE}, CARTPOLE, tmp_path)
    assert run_session(request, no_game) == RETRY
    said = capsys.readouterr().out
    assert "The last state could not be saved" in said
    assert "Done" not in said
    assert not [*tmp_path.glob("*/evaluation.json")]


def test_a_run_whose_time_is_up_while_it_is_saved_trains_no_further_when_it_is_resumed(
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
    kept = []
    for more in ({}, {"resume": "run"}):
        request = Request({**default.get_config(), **given, **more}, {**given, **more}, tmp_path)
        assert run_session(request, no_game) == DONE
        kept.append((tmp_path / "run" / "metrics.jsonl").read_text())
    assert len(kept[0].splitlines()) == 3
    assert kept[1] == kept[0]
