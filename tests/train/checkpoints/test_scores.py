"""Which of a run's checkpoints is its best."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest

from hackmatrix.parallel import mesh
from hackmatrix.train.checkpointer import Checkpointer
from hackmatrix.train.checkpoints import scores, shelf
from hackmatrix.train.checkpoints.manifest import MANIFEST, Manifest, seal
from hackmatrix.train.checkpoints.scores import GAMES, SCORE, Best
from hackmatrix.train.program import Program
from hackmatrix.train.reporting.evaluator import EvaluationResult
from hackmatrix.train.runs.clock import Clock
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.places import place
from hackmatrix.train.runs.protocol import WHOLE, Place, asked
from tests.train.settings import config

BATCH = 16 * 16
SETTINGS = {
    "env": "tests.networks.grid:GridWalk", "num_envs": 16, "num_steps": 16, "hidden_dim": 8,
    "num_layers": 1, "total_timesteps": 12 * BATCH, "keep_checkpoints": 1, "keep_milestones": 0,
    "log_interval": 2, "save_interval": 4, "eval_games": 20,
}  # fmt: skip


@pytest.mark.parametrize(
    ("games", "best", "kept"),
    [
        ((256, 256, 20, 20), Best(0.5, 3, 20), [1, 3]),
        ((256, 20, 256, 256), Best(0.9, 1, 256), [1, 2]),
        # Earlier revisions did not record the number of games.
        ((None, 256, 20, 20), Best(0.9, 1, None), [1, 2, 3]),
        ((256, 256, 20, None), Best(0.5, 3, 20), [1, 3, 4]),
        ((None, None, None, None), Best(0.9, 1, None), [1]),
    ],
)
def test_the_best_is_one_of_those_evaluated_on_as_many_games_as_the_newest(
    tmp_path: Path, games: tuple[int | None, ...], best: Best, kept: list[int]
) -> None:
    """The best by any other number is kept too, in case the user returns to that number."""
    measured = zip((0.9, 0.8, 0.5, 0.4), games, strict=True)
    for step, (score, number) in enumerate(measured, start=1):
        metadata = {SCORE: score} | ({GAMES: number} if number else {})
        record = tmp_path / str(step) / MANIFEST
        record.mkdir(parents=True)
        (record / "metadata").write_text(json.dumps(seal(Manifest({}, {}, metadata))))
        (tmp_path / str(step) / WHOLE).touch()
    assert scores.read(place(tmp_path), (3, 1, 4, 2)) == (best, kept, [])


def test_several_checkpoints_are_looked_at_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket each look takes a while, and training waits for all of them."""
    others = threading.Barrier(3, timeout=30)

    def with_others(look: Callable[[Place], Any]) -> Callable[[Place], Any]:
        return lambda checkpoint: (others.wait(), look(checkpoint))[1]

    for step in ("1", "2", "3"):
        (tmp_path / step).mkdir()
    monkeypatch.setattr(shelf, "_is_finished", with_others(shelf._is_finished))
    monkeypatch.setattr(scores, "_manifest", with_others(scores._manifest))
    assert shelf.unfinished(place(tmp_path)) == []
    assert shelf.steps(place(tmp_path)) == [1, 2, 3]
    assert scores.read(place(tmp_path), (1, 2, 3)) == (None, [], [])


def test_an_interrupt_does_not_wait_for_a_bucket_that_does_not_answer(tmp_path: Path) -> None:
    answers = threading.Event()

    def look(checkpoint: Place) -> None:
        if checkpoint.name == "1":
            raise KeyboardInterrupt
        answers.wait(30)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        asked(look, [place(tmp_path / step) for step in ("1", "2")])
    assert time.monotonic() - began < 20
    answers.set()


def test_a_new_best_agent_is_saved_at_once_and_kept(tmp_path: Path) -> None:
    run = Run(tmp_path, config(**SETTINGS))
    program = Program(run.config, mesh.over(jax.devices()[:1]))
    checkpointer = Checkpointer(run, program, Clock(), print)
    state = checkpointer.restore()
    saved = []
    for update, score in enumerate((0.0, 3.0, 2.0, 1.0, 2.5, 3.0), start=1):
        evaluation = EvaluationResult({}, score)
        if checkpointer.is_due(update, evaluation):
            checkpointer.save(update, state, evaluation)
            saved.append(update)
    checkpointer.close()
    assert saved == [1, 2, 4]  # 4 because a save was due
    assert checkpointer.steps() == [2 * BATCH, 4 * BATCH]
    resumed = Checkpointer(run, program, Clock(), print)
    resumed.restore()
    assert resumed.schedule.steps == 4 * BATCH
    assert not resumed.is_due(5, EvaluationResult({}, 2.9))
    assert resumed.is_due(5, EvaluationResult({}, 3.1))


def test_scores_on_different_numbers_of_games_are_reported_and_not_compared(
    tmp_path: Path,
) -> None:
    """Otherwise, a lucky score on one game would stay the best for ever."""
    by_many, messages = config(**SETTINGS), list[str]()
    by_one = dataclasses.replace(by_many, eval_games=1)
    program = Program(by_many, mesh.over(jax.devices()[:1]))
    before, after = (
        Checkpointer(Run(tmp_path, each), program, Clock(), messages.append)
        for each in (by_one, by_many)
    )
    state = before.restore()
    before.save(1, state, EvaluationResult({}, 9.0))
    before.close()
    assert after.is_due(2, EvaluationResult({}, 3.0))
    after.save(2, state, EvaluationResult({}, 3.0))
    assert not after.is_due(3, EvaluationResult({}, 3.0))
    assert after.is_due(3, EvaluationResult({}, 3.1))
    after.close()
    assert messages == [
        f"The best checkpoint, at step {BATCH}, was evaluated on 1 game, so it is not comparable "
        "with this agent"
    ]
