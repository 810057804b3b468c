"""Games that a run leaves behind to look at; what plays and draws them is a stand-in here."""

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
from hackmatrix.train.reporting.replays import Play, Replays
from hackmatrix.train.reporting.sinks import Game
from hackmatrix.train.runs.directory import create
from tests.train.policies.saved_policies import UNIT, learned
from tests.train.settings import resolved

STEP = 8192


@dataclass
class Page:
    """A game that is nothing but a page."""

    text: str
    total: float

    def page(self) -> str:
        return self.text

    def pictures(self, most: int) -> list[np.ndarray]:
        return []

    def film(self, most: int) -> bytes:
        return b""


class Games:
    """Notes what is to be played."""

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
    """What the agent acts with."""
    return program.acting(learner)


def of_a_run(workdir: Path, program: Program, play: Play, said: list[str]) -> Replays:
    def show(step: int, game: Game) -> None:
        said.append(f"shown at {step}: {game.page()}")

    return Replays(create(workdir, resolved(run_name="run")), program, play, said.append, show)


def test_the_best_game_is_played_again_by_what_was_learned(
    tmp_path: Path, program: Program, learner: Any, params: Any
) -> None:
    games, said = Games(7.5), list[str]()
    told = of_a_run(tmp_path, program, games.play, said).best(STEP, params, 5, 7.5)
    file = tmp_path / f"run/replays/{STEP}.html"
    assert told == f"The best was game 5, with a return of 7.50: {file}"
    assert file.read_text() == f"game 5 at step {STEP}"
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    ((policy, *asked),) = games.asked
    assert asked == [EVALUATION_SEED, 5, program.env.most_actions]
    assert policy.source == "run"
    assert said == [f"shown at {STEP}: game 5 at step {STEP}"]
    layers, was = policy.params["params"], learner.params["params"]
    np.testing.assert_array_equal(layers["actor"]["kernel"], was["actor"]["kernel"])
    np.testing.assert_allclose(layers["critic"]["kernel"], UNIT * was["critic"]["kernel"])


def test_a_game_that_takes_another_course_is_admitted(
    tmp_path: Path, program: Program, params: Any
) -> None:
    told = of_a_run(tmp_path, program, Games(1.25).play, []).best(STEP, params, 5, 7.5)
    assert "7.50 (1.25 in this replay)" in str(told)


def test_what_prevents_a_replay_is_a_line_and_not_the_end_of_the_run(
    tmp_path: Path, program: Program, params: Any
) -> None:
    def fail(*_: Any) -> Page:
        raise ValueError("no board today")

    said: list[str] = []
    assert of_a_run(tmp_path, program, fail, said).best(STEP, params, 5, 7.5) is None
    assert len(said) == 1
    assert "no board today" in said[0]


def test_at_a_checkpoint_a_game_is_played_meanwhile_and_never_two_at_once(
    tmp_path: Path, program: Program, learner: Any, params: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "_idle_cpu", lambda: jax.local_devices()[0])
    games = Games(1, 2)
    games.may_end.clear()
    mine = of_a_run(tmp_path, program, games.play, [])
    mine.at_checkpoint(1, learner)
    mine.at_checkpoint(2, learner)
    games.may_end.set()
    mine.best(3, params, 4, 2)
    assert [(policy.step, number) for policy, _, number, _ in games.asked] == [(1, 0), (3, 4)]
    assert {each.name for each in (tmp_path / "run/replays").iterdir()} == {"1.html", "3.html"}


def test_where_training_needs_the_cpu_no_game_is_played_before_its_end(
    tmp_path: Path, program: Program, learner: Any, params: Any
) -> None:
    games, said = Games(1, 2), list[str]()
    mine = of_a_run(tmp_path, program, games.play, said)
    mine.at_checkpoint(1, learner)
    assert games.asked == []
    mine.prepare(2, params)
    mine.best(2, params, 4, 2)
    assert [(policy.step, number) for policy, _, number, _ in games.asked] == [(2, 0), (2, 4)]
    assert (tmp_path / "run/replays/2.html").read_text() == "game 4 at step 2"
    assert said == ["shown at 2: game 4 at step 2"]


def test_what_is_compiled_ahead_is_what_plays_the_best_game_and_leaves_no_page(
    tmp_path: Path, program: Program, params: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "_idle_cpu", lambda: jax.local_devices()[1])
    games, said = Games(1), list[str]()  # the best game fails
    mine = of_a_run(tmp_path, program, games.play, said)
    mine.prepare(2, params)
    assert mine.best(2, params, 4, 2) is None
    assert not (tmp_path / "run/replays/2.html").exists()
    assert len(said) == 1
    of_both = [jax.tree.leaves(policy.params)[0].devices() for policy, *_ in games.asked]
    assert of_both == [{jax.local_devices()[0]}] * 2


def test_games_that_cannot_be_drawn_are_not_played(tmp_path: Path) -> None:
    config = resolved(env="gymnax:CartPole-v1", hidden_dim=16, num_envs=8, num_steps=8)
    cartpole = Program(config, meshes.over(jax.devices()[:1]))
    params = cartpole.acting(learned(cartpole))
    games = Games(1)
    mine = of_a_run(tmp_path, cartpole, games.play, [])
    mine.prepare(2, params)
    assert mine.best(2, params, 4, 2) is None
    assert games.asked == []
