"""Games that a run records to look at; a stand-in plays and draws them here."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from hackmatrix.parallel import mesh as meshes
from hackmatrix.rl.evaluation import EVALUATION_SEED
from hackmatrix.train.policies.policy import Policy
from hackmatrix.train.program import Program
from hackmatrix.train.reporting import replays
from hackmatrix.train.reporting.evaluator import Evaluator
from hackmatrix.train.reporting.replays import Play, Replays
from hackmatrix.train.reporting.sinks import Game
from hackmatrix.train.runs.directory import create
from hackmatrix.train.runs.schedule import Schedule
from tests.train.policies.saved_policies import UNIT, learned
from tests.train.reporting.told_metrics import evaluation
from tests.train.settings import resolved

STEP = 8192


@dataclass
class Page:
    """A game that has only a page."""

    text: str
    total: float

    def page(self) -> str:
        return self.text

    def pictures(self, most: int) -> list[np.ndarray]:
        return []

    def film(self, most: int) -> bytes:
        return b""


class Games:
    """Plays games, and records what it was asked to play."""

    def __init__(self, *returns: float) -> None:
        self.asked: list[tuple[Policy, int, int, int]] = []
        self._returns = list(returns)
        self.may_end = threading.Event()
        self.may_end.set()

    def play(self, policy: Policy, seed: int, number: int, most_steps: int) -> Page:
        self.asked.append((policy, seed, number, most_steps))
        assert self.may_end.wait(20)
        return Page(f"game {number} at step {policy.step}", self._returns.pop(0))


@pytest.fixture(scope="module")
def program() -> Program:
    config = resolved(hidden_dim=16, num_envs=8, num_steps=8)
    return Program(config, meshes.over(jax.devices()[:1]))


@pytest.fixture(scope="module")
def learner(program: Program) -> Any:
    return learned(program)


@pytest.fixture(scope="module")
def params(program: Program, learner: Any) -> Any:
    """The parameters with which the agent acts."""
    return program.acting(learner)


def make_replays(workdir: Path, program: Program, play: Play, messages: list[str]) -> Replays:
    def show(step: int, game: Game) -> None:
        messages.append(f"shown at {step}: {game.page()}")

    return Replays(create(workdir, resolved(run_name="run")), program, play, messages.append, show)


def test_the_best_game_is_played_again_with_the_learned_parameters(
    tmp_path: Path, program: Program, learner: Any, params: Any
) -> None:
    games, messages = Games(7.5), list[str]()
    message = make_replays(tmp_path, program, games.play, messages).best(STEP, params, 5, 7.5)
    file = tmp_path / f"run/replays/{STEP}.html"
    assert message == f"The best was game 5, with a return of 7.50: {file}"
    assert file.read_text() == f"game 5 at step {STEP}"
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    ((policy, *asked),) = games.asked
    assert asked == [EVALUATION_SEED, 5, program.env.most_actions]
    assert policy.source == "run"
    assert messages == [f"shown at {STEP}: game 5 at step {STEP}"]
    layers, expected = policy.params["params"], learner.params["params"]
    np.testing.assert_array_equal(layers["actor"]["kernel"], expected["actor"]["kernel"])
    np.testing.assert_allclose(layers["critic"]["kernel"], UNIT * expected["critic"]["kernel"])


def test_a_replay_with_another_return_is_reported(
    tmp_path: Path, program: Program, params: Any
) -> None:
    message = make_replays(tmp_path, program, Games(1.25).play, []).best(STEP, params, 5, 7.5)
    assert "7.50 (1.25 in this replay)" in str(message)


def test_an_error_in_a_replay_is_one_message_and_does_not_end_the_run(
    tmp_path: Path, program: Program, params: Any
) -> None:
    def fail(*_: Any) -> Page:
        raise ValueError("no board today")

    messages: list[str] = []
    assert make_replays(tmp_path, program, fail, messages).best(STEP, params, 5, 7.5) is None
    assert len(messages) == 1
    assert "no board today" in messages[0]


def test_a_game_of_a_checkpoint_is_played_in_the_background_and_never_two_at_once(
    tmp_path: Path, program: Program, learner: Any, params: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "_idle_cpu", lambda: jax.local_devices()[0])
    games = Games(1, 2)
    games.may_end.clear()
    recorder = make_replays(tmp_path, program, games.play, [])
    recorder.at_checkpoint(1, learner)
    recorder.at_checkpoint(2, learner)
    games.may_end.set()
    recorder.best(3, params, 4, 2)
    assert [(policy.step, number) for policy, _, number, _ in games.asked] == [(1, 0), (3, 4)]
    assert {each.name for each in (tmp_path / "run/replays").iterdir()} == {"1.html", "3.html"}


def test_no_game_is_played_during_training_that_needs_the_cpu(
    tmp_path: Path, program: Program, learner: Any, params: Any
) -> None:
    games, messages = Games(1, 2), list[str]()
    recorder = make_replays(tmp_path, program, games.play, messages)
    recorder.at_checkpoint(1, learner)
    assert games.asked == []
    recorder.prepare(2, params)
    recorder.best(2, params, 4, 2)
    assert [(policy.step, number) for policy, _, number, _ in games.asked] == [(2, 0), (2, 4)]
    assert (tmp_path / "run/replays/2.html").read_text() == "game 4 at step 2"
    assert messages == ["shown at 2: game 4 at step 2"]


def test_compiling_ahead_is_for_the_device_of_the_best_game_and_leaves_no_page(
    tmp_path: Path, program: Program, params: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "_idle_cpu", lambda: jax.local_devices()[1])
    games, messages = Games(1), list[str]()  # the best game fails
    recorder = make_replays(tmp_path, program, games.play, messages)
    recorder.prepare(2, params)
    assert recorder.best(2, params, 4, 2) is None
    assert not (tmp_path / "run/replays/2.html").exists()
    assert len(messages) == 1
    devices = [jax.tree.leaves(policy.params)[0].devices() for policy, *_ in games.asked]
    assert devices == [{jax.local_devices()[0]}] * 2


def test_games_that_cannot_be_drawn_are_not_played(tmp_path: Path) -> None:
    config = resolved(env="gymnax:CartPole-v1", hidden_dim=16, num_envs=8, num_steps=8)
    cartpole = Program(config, meshes.over(jax.devices()[:1]))
    params = cartpole.acting(learned(cartpole))
    games = Games(1)
    recorder = make_replays(tmp_path, cartpole, games.play, [])
    recorder.prepare(2, params)
    assert recorder.best(2, params, 4, 2) is None
    assert games.asked == []


@pytest.mark.parametrize("where", ["disk", "bucket"])
def test_pages_and_the_evaluation_of_agents_that_are_trained_again_are_removed(
    request: pytest.FixtureRequest, tmp_path: Path, program: Program, where: str
) -> None:
    workdir = tmp_path if where == "disk" else request.getfixturevalue("bucket_address")
    run = create(workdir, resolved(run_name="run"))
    told = evaluation(STEP + 1)
    run.evaluation.write_text(told)
    run.lasting(run.evaluation).write(told)
    pages = run.lasting(run.replays)
    pages.claim()
    for name in (f"{STEP}.html", f"{STEP + 1}.html", "mine.html"):
        (pages / name).write("a game")
    schedule = Schedule(run.config, 1, STEP)
    evaluator = Evaluator(run, program, schedule, print, goes_on=lambda: True)
    evaluator.forget_what_is_done_again()
    assert sorted(pages.names()) == [f"{STEP}.html", "mine.html"]
    assert not run.evaluation.exists()
    assert not run.lasting(run.evaluation).exists()
