"""An exported policy plays the game of another program, even without JAX."""

from __future__ import annotations

import json
import os
import pickle
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from hackmatrix import game, networks
from hackmatrix.api.driving import looking_ahead
from hackmatrix.api.loading import load
from hackmatrix.envs import make
from hackmatrix.envs.headless.states import read_state
from hackmatrix.envs.headless.view import observation
from hackmatrix.errors import UserError
from hackmatrix.networks import Spec, files
from hackmatrix.networks.files import About
from hackmatrix.standalone import driving
from hackmatrix.standalone.policy import NumpyPolicy
from tests.envs.headless.asking import LocalProgram

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of an untrained policy."""
    env = make("hackmatrix")
    spec = Spec("mlp", 16, 1, 1, separate_critic=False, compute_dtype="float32")
    params = networks.make(spec, env).init(jax.random.key(0))
    about = About(env.name, dict(env.observation), env.action_names, "untrained", 0, spec)
    (tmp_path / "policy.npz").write_bytes(files.content(params, about))
    return tmp_path / "policy.npz"


def test_without_jax_a_policy_plays_over_the_protocol(file: Path, tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax/__init__.py").write_text("raise ImportError('there is no JAX here')")
    # This path is for the client alone: the game program that it starts needs JAX.
    serve = [sys.executable, "-m", "launch.serve", "--headless-cli", "--seed=3"]
    server = shlex.join(["env", f"PYTHONPATH={ROOT}", *serve])
    played = subprocess.run(
        [sys.executable, "-m", "launch.drive", f"--policy={file}", f"--server={server}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert played.returncode == 0, played.stderr
    assert played.stdout.startswith("game 0: return ")


def test_actions_are_the_likeliest_or_drawn_with_the_policys_probabilities(file: Path) -> None:
    policy, draws = NumpyPolicy(file), np.random.default_rng(0)
    seen, mask = np.ones(1545, np.float32), np.arange(28) < 3
    weights = np.exp(policy.outputs(seen)[0][mask])
    assert policy.act(seen, mask) == weights.argmax()
    one_by_one = [policy.act(seen, mask, draws) for _ in range(1000)]
    at_once = policy.act(np.tile(seen, (1000, 1)), np.tile(mask, (1000, 1)), draws)
    for actions in (one_by_one, at_once):
        shares = np.bincount(actions) / 1000  # only of the actions that the mask allows
        np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.05)


def drive(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "launch.drive", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_seed_plays_the_same_games_with_the_same_draws(file: Path) -> None:
    printed = drive(f"--policy={file}", "--games=3", "--seed=4").stdout
    program, decide = LocalProgram(4), driving.at_once(NumpyPolicy(file), np.random.default_rng(4))
    games = [driving.play(program, decide) for _ in range(3)]
    each = [f"game {number}: {played.summary}" for number, played in enumerate(games)]
    assert printed.splitlines() == [*each, "3 games, 95% intervals", *driving.table(games)]


class Onlooker:
    """Stands in for `Player`: takes the last valid action, and records what it was shown."""

    def __init__(self, *_: Any, **about: Any) -> None:
        self.about = about
        self.shown: list[tuple[Any, ...]] = []

    def choose(self, *shown: Any) -> tuple[int]:
        self.shown.append(shown)
        return (int(np.flatnonzero(shown[1])[-1]),)


def test_a_policy_that_looks_ahead_is_shown_each_board_of_the_other_program(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onlookers: list[Onlooker] = []

    def onlooker(*given: Any, **about: Any) -> Onlooker:
        onlookers.append(Onlooker(*given, **about))
        return onlookers[0]

    monkeypatch.setattr("hackmatrix.api.driving.Player", onlooker)
    decide = looking_ahead(load(file), plan=4, seed=5)
    games = [driving.play(LocalProgram(seed), decide) for seed in (5, 6)]
    (player,) = onlookers
    assert player.about["planner"].games == 4
    assert [step for _, _, step, _ in player.shown] == list(range(len(player.shown)))
    assert len(player.shown) == sum(len(played.actions) for played in games)
    observations, masks, _, boards = (list(each) for each in zip(*player.shown, strict=True))
    stacked = jax.tree.map(lambda *leaves: np.concatenate(leaves), *boards)
    np.testing.assert_allclose(jax.vmap(game.observe)(stacked), observations, atol=1e-6)
    np.testing.assert_array_equal(jax.vmap(game.valid_actions)(stacked), masks)


def test_a_policy_that_looks_ahead_may_be_in_a_file_of_any_name(file: Path) -> None:
    other = file.rename(file.with_suffix(".policy"))
    refused = drive(f"--policy={other}", "--plan=4", "--server=/nowhere")
    assert "cannot start the game program /nowhere: " in refused.stderr.splitlines()[-1]


def test_too_few_games_to_look_ahead_with_are_refused_in_one_line(file: Path) -> None:
    refused = drive(f"--policy={file}", "--plan=3")
    assert refused.returncode == 1
    assert refused.stderr == "launch.drive: flag --plan=3: must be 0, or from 4 to 4096\n"
    with pytest.raises(UserError, match="plan=0 does not look ahead: it must be 4 or more"):
        looking_ahead(load("policies/conv"), plan=0, seed=0)


def test_many_games_are_summarised_in_the_form_of_an_evaluation() -> None:
    stopped = driving.Played(-2.0, is_over=False, stage=1, score=0, actions=[0])
    won = driving.Played(600.0, is_over=True, stage=9, score=3, actions=[0, 1])
    assert won.summary == "return 600.00, won, score 3, 2 actions"
    table = driving.table([stopped, won])
    assert "(1.00 to 9.00)" in table[1]  # cut off at the first and the last stage
    rows = [line.split("  ")[0] + line[24:].split("(")[0] for line in table]
    assert [" ".join(row.split()) for row in rows] == [
        "return 299.00", "stage reached 5.00", "completed stage 1 (%) 50.00", "won (%) 50.00",
        "came to an end (%) 50.00",
    ]  # fmt: skip
    assert driving.table([won])[0].split() == ["return", "600.00"]  # one game has no interval


@pytest.mark.parametrize("content", [b"no archive", b"", pickle.dumps({"a": 1})])
def test_a_file_that_is_no_policy_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "policy.npz"
    file.write_bytes(content)
    refused = drive(f"--policy={file}")
    assert refused.returncode == 1
    assert refused.stderr == (
        f"launch.drive: {file} is not a policy that launch.export wrote: it is not an .npz file\n"
    )


def test_a_policy_of_another_game_and_half_a_command_are_refused_in_one_line(file: Path) -> None:
    params, about = files.read(file)
    about = replace(about, env="CartPole", observation={"place": (4,)})
    file.write_bytes(files.content(params, about))
    refused = drive(f"--policy={file}")
    assert refused.returncode == 1
    assert refused.stderr.startswith("launch.drive: this policy plays CartPole, with 4 inputs")
    for server, message in (
        ("echo 'half", "--server=echo 'half is not a command: No closing quotation"),
        ("", "--server= is empty: give a command"),
    ):
        refused = drive(f"--policy={file}", f"--server={server}")
        assert refused.returncode == 1
        assert refused.stderr == f"launch.drive: {message}\n"


EMPTY = shlex.quote('{"observation": {}, "validActions": [0]}')


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("/bin/cat", "does not speak the headless protocol: it answered 'reset' with {"),
        ("echo hello", "does not speak the headless protocol: it answered 'reset' with hello"),
        ("echo 3", "does not speak the headless protocol: it answered 'reset' with 3"),
        (f"yes {EMPTY}", "a form other than the headless protocol's: KeyError:"),
        ("true", "the game program has exited"),
        ("/nowhere", "cannot start the game program /nowhere: No such file or directory"),
    ],
)
def test_a_program_that_plays_no_game_is_reported_in_one_line(
    file: Path, server: str, message: str
) -> None:
    refused = drive(f"--policy={file}", f"--server={server}")
    assert refused.returncode == 1
    first, last = refused.stderr.splitlines()
    assert first == "launch.drive: playing 1 game ..."
    assert message in last


TREADMILL = """
import json, sys
answers = json.loads(sys.argv[1])
for line in sys.stdin:
    sys.stdout.buffer.write(answers[json.loads(line)["action"]].encode("latin-1") + b"\\n")
    sys.stdout.flush()
"""


class Treadmill:
    """A game program whose board never changes. Tests set its answers."""

    def __init__(self) -> None:
        board, _ = read_state({"player": {"row": 0, "col": 0}})
        self.seen = observation(board, [], [])
        self.step: dict[str, Any] = {"reward": 0, "done": False}
        self.valid: object = [0]

    def play(self, file: Path, **raw: str) -> driving.Played:
        answers = {
            "reset": json.dumps({"observation": self.seen}),
            "getValidActions": json.dumps({"validActions": self.valid}),
            "step": json.dumps({"observation": self.seen, **self.step}),
        }
        command = [sys.executable, "-c", TREADMILL, json.dumps({**answers, **raw})]
        with driving.GameProgram(command) as program:
            return driving.play(program, driving.at_once(NumpyPolicy(file)))


@pytest.mark.parametrize(
    ("what", "wrong", "message"),
    [
        ("valid", [], "no action is valid"),
        ("valid", [28], r"numbers from 0 to 27, not \[28\]"),
        ("valid", [-1], r"numbers from 0 to 27, not \[-1\]"),
        ("valid", [[0]], r"numbers from 0 to 27, not \[\[0\]\]"),
        ("valid", [True], r"numbers from 0 to 27, not \[True\]"),
        ("valid", {"0": True}, "does not speak the headless protocol: it answered 'getValid"),
        ("step", {"reward": None}, "does not speak the headless protocol: it answered 'step'"),
        ("step", {"done": "false"}, "does not speak the headless protocol: it answered 'step'"),
        ("step", {"reward": float("nan")}, "a reward that is not finite: nan"),
        ("step", {"reward": -(10**400)}, "a reward that is not finite: "),
        ("seen", {"cells": [[]]}, "33 numbers instead of 1545"),
        ("seen", {"playerHP": float("inf")}, "a number is not finite"),
        ("seen", {"playerRow": 10**400}, "OverflowError"),
        ("seen", {"stage": "1"}, "TypeError"),
        ("seen", {"score": None}, "stage 1 and score None"),
        ("seen", {"stage": 10}, "stage 10 and score 0"),
    ],
)
def test_malformed_answers_are_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, what: str, wrong: object, message: str
) -> None:
    monkeypatch.setattr(driving, "MOST_STEPS", 2)
    treadmill = Treadmill()
    if isinstance(wrong, dict) and what != "valid":
        wrong = {**getattr(treadmill, what), **wrong}
    setattr(treadmill, what, wrong)
    with pytest.raises(UserError, match=message):
        treadmill.play(file)


def test_a_game_that_ends_by_completing_the_last_stage_is_won(file: Path) -> None:
    treadmill = Treadmill()
    treadmill.seen["stage"] = 8  # the last; the canonical program does not raise it
    treadmill.step = {"reward": 564.15, "done": True, "info": {"stage_complete": True}}
    assert treadmill.play(file).summary == "return 564.15, won, score 0, 1 actions"
    treadmill.step = {"reward": -32.0, "done": True, "info": {"death": True}}
    assert treadmill.play(file).summary == "return -32.00, stage 8, score 0, 1 actions"


@pytest.mark.parametrize("reset", ["\xff\xfe", "[" * 100_000])
def test_an_answer_that_is_not_json_is_refused(file: Path, reset: str) -> None:
    with pytest.raises(UserError, match="it answered 'reset' with"):
        Treadmill().play(file, reset=reset)


def test_a_program_can_be_asked_commands_that_play_does_not_use() -> None:
    server = [sys.executable, "-c", TREADMILL, json.dumps({"getAdvice": '{"actionIndex": 3}'})]
    with driving.GameProgram(server) as program:
        assert program.ask("getAdvice") == {"actionIndex": 3}


def test_a_game_that_does_not_end_is_stopped_and_reported_as_stopped(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving, "MOST_STEPS", 9)
    treadmill = Treadmill()
    treadmill.step["info"] = {"stage_complete": True}  # not a win before the game is over
    played = treadmill.play(file)
    assert played.summary == "return 0.00, stage 1, score 0, 9 actions, stopped before its end"
