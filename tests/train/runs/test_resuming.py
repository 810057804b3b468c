"""Runs that are resumed with other settings than they were started with.

CartPole stands in for the game, because it compiles in seconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from configs import default
from hackmatrix.exit_codes import DONE
from hackmatrix.parallel import mesh
from hackmatrix.rl.rollout import Players
from hackmatrix.train.plan import Request
from hackmatrix.train.program import Program
from hackmatrix.train.session import run_session
from tests.train.settings import config

SMALL = {
    "env": "gymnax:CartPole-v1", "num_envs": 8, "num_steps": 16, "num_minibatches": 2,
    "update_epochs": 1, "hidden_dim": 8, "num_layers": 1, "lr": 1e-3, "anneal_lr": True,
    "log_interval": 5, "eval_interval_minutes": 0.0, "eval_episodes": 0, "run_name": "run",
    "keep_checkpoints": 9,
}  # fmt: skip
STEPS = 10 * 8 * 16
NEW_GAMES = (
    "The number or kind of environments has changed: all begin new games; the optimiser's moving "
    "averages are still those of the old batches"
)


def no_game(*_: Any) -> Any:
    """CartPole cannot be drawn."""


def train(workdir: Path, **given: Any) -> None:
    settings = dict(default.get_config())
    request = Request({**settings, **given}, given, workdir)
    assert run_session(request, no_game) == DONE


def lines(workdir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (workdir / "run/metrics.jsonl").read_text().splitlines()]


def metadata(workdir: Path) -> dict[int, dict[str, float]]:
    """The metadata of each checkpoint, by environment step."""
    found = {}
    for each in (workdir / "run/checkpoints").iterdir():
        record = json.loads((each / "record/metadata").read_text())
        found[int(each.name)] = record["metadata"]
    return dict(sorted(found.items()))


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run resumed with larger updates, and then with smaller ones of more environments; and what
    each of its three starts printed.
    """
    workdir, printed = tmp_path_factory.mktemp("resized"), list[str]()
    larger = {"resume": "run", "num_steps": 32}
    smaller = {"resume": "run", "num_envs": 16, "num_steps": 4, "episode_limit": 12}
    settings: tuple[dict[str, Any], ...] = SMALL, larger, smaller
    for number, given in enumerate(settings, start=1):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            train(workdir, total_timesteps=number * STEPS, **given)
        printed.append(output.getvalue())
    return workdir, printed


@pytest.fixture(scope="module")
def resized(starts: tuple[Path, list[str]]) -> Path:
    return starts[0]


def test_new_games_and_an_old_optimiser_are_reported_for_another_number_of_environments(
    starts: tuple[Path, list[str]],
) -> None:
    _, larger, more = (" ".join(each.split()) for each in starts[1])
    assert NEW_GAMES in more
    assert "new games" not in larger


def test_a_start_says_which_settings_of_the_run_it_changes(
    starts: tuple[Path, list[str]],
) -> None:
    first, larger, _ = (" ".join(each.split()) for each in starts[1])
    changes = f"num_steps = 32 (so far: 16), total_timesteps = {2 * STEPS:_} (so far: {STEPS:_})"
    assert f"From now on {changes}" in larger
    assert "From now on" not in first


def test_steps_keep_counting_up_when_updates_change_in_size(
    resized: Path,
) -> None:
    steps = [line["step"] for line in lines(resized)]
    assert steps == sorted(set(steps))
    assert steps[-1] == 3 * STEPS


def test_update_numbers_stay_unique_because_draws_are_keyed_by_them(resized: Path) -> None:
    updates = {step: each["update"] for step, each in metadata(resized).items()}
    assert updates == {STEPS: 10, 2 * STEPS: 15, 3 * STEPS: 35}


def test_the_learning_rate_falls_with_the_steps_whatever_the_size_of_an_update(
    resized: Path,
) -> None:
    last = lines(resized)[-1]
    middle = last["step"] - 3 * 64  # of the five updates of the last chunk
    expected = 1e-3 * (1 - middle / (3 * STEPS))
    assert last["train/lr"] == pytest.approx(expected, rel=1e-5)


def test_an_episode_limit_may_be_set_in_the_middle_of_a_run(resized: Path) -> None:
    (before,) = (line for line in lines(resized) if line["step"] == 2 * STEPS)
    last = lines(resized)[-1]
    assert before["train/cut_off"] == 0
    assert 0 < last["train/cut_off"] < 1
    assert before["train/mean_episode_length"] > 12 >= last["train/mean_episode_length"]


def test_minutes_of_training_are_counted_over_all_starts_of_a_run(
    resized: Path, tmp_path: Path
) -> None:
    trained = [each["seconds"] for each in metadata(resized).values()]
    assert 0 < trained[0] < trained[1] < trained[2]
    again = shutil.copytree(resized, tmp_path / "again")
    limit = 0.999 * trained[-1] / 60  # without rounding up
    train(again, resume="run", total_timesteps=4 * STEPS, time_limit_minutes=limit)
    assert lines(again) == lines(resized)
    assert metadata(again) == metadata(resized)


def test_a_run_continues_without_the_updates_that_are_not_finite(
    resized: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = shutil.copytree(resized, tmp_path / "again")
    total = 3 * STEPS + 5 * 64
    train(again, resume="run", total_timesteps=total, anneal_lr=False, lr=1e38, skip_nonfinite=True)
    printed = capsys.readouterr().out
    last = lines(again)[-1]
    assert (last["step"], last["train/skipped_updates"]) == (total, 5)
    assert "train/vf_loss" not in last  # because every update was skipped
    (titles,) = (each for each in printed.splitlines() if each.startswith("progress"))
    assert "skipped" in titles
    assert last["train/num_episodes"] > 0


def test_new_games_in_the_middle_of_a_run_differ_from_earlier_ones() -> None:
    program = Program(config(**SMALL), mesh.over(jax.devices()[:1]))
    learner = program.first_state().learner

    def observations(players: Players) -> np.ndarray:
        return np.asarray(program.env.observe(players.boards))

    first = observations(program.first_state().players)
    later = [
        observations(program.new_players(learner.replace(update=update))) for update in (0, 1, 1)
    ]
    assert not np.isclose(first, later[0]).all(axis=1).any()
    assert not np.isclose(later[0], later[1]).all(axis=1).any()
    np.testing.assert_array_equal(later[1], later[2])
