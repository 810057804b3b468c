"""Games that a policy plays for people to watch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.report import games
from hackmatrix.search.base import Found
from hackmatrix.search.planner import Planner
from hackmatrix.train.policies import policy as policies
from hackmatrix.train.policies.policy import Policy
from hackmatrix.train.runs.directory import create
from hackmatrix.train.runs.protocol import Unavailable
from tests.bucket_service import Service
from tests.train.policies.saved_policies import STEP, saved_run
from tests.train.settings import resolved

TURNS = 12


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return policies.of_run(saved_run(tmp_path_factory.mktemp("runs")))


def test_the_same_number_gives_the_same_game_and_another_number_another(policy: Policy) -> None:
    first, again, another = (
        games.play(policy, seed=1, number=number, most_steps=TURNS) for number in (5, 5, 6)
    )
    assert first == again
    assert another.frames[0].seen["cells"] != first.frames[0].seen["cells"]
    assert first.title == f"saved at step {STEP:,}, game 5 of seed 1"


def test_the_greedy_policy_takes_the_likeliest_action(policy: Policy) -> None:
    played = games.play(policy, seed=1, number=5, greedy=True, most_steps=TURNS)
    assert len(played.frames) > 1
    for frame in played.frames[:-1]:
        assert frame.decision is not None
        assert frame.decision.action == int(np.argmax(frame.decision.probabilities))


class FirstValid(Planner):
    """Finds the first valid action, but only on a CPU."""

    def __call__(self, params: Any, keys: jax.Array, boards: Any, wanted: jax.Array) -> Found:
        assert not self.env.puts_boards_last, "the environment is that for TPUs"
        _, mask = self.env.decode(self.env.encode(boards))
        return Found(jnp.argmax(mask, -1), mask / mask.sum(-1), jnp.zeros(mask.shape))


def test_a_planner_for_an_accelerator_plans_on_the_cpu(policy: Policy) -> None:
    """A CPU cannot compile the kernels of accelerators."""
    for_tpus = replace(policy, env=policy.env.on("tpu", kernels=True))
    planner = FirstValid(for_tpus.env, policy.network, policy.signal, games=16)
    played = games.play(for_tpus, seed=1, number=5, most_steps=1, planner=planner)
    assert played.frames[0].decision is not None


def test_a_recorded_game_has_its_return_and_is_saved_as_page_or_animation(
    policy: Policy, tmp_path: Path
) -> None:
    recorded = games.recorded(policy, seed=1, number=5, most_steps=TURNS)
    played = games.play(policy, seed=1, number=5, most_steps=TURNS)
    assert recorded.total == played.total
    assert played.title in recorded.page()
    assert recorded.save(tmp_path / "game.html").read_text("utf-8") == recorded.page()
    assert recorded.save(tmp_path / "GAME.GIF").read_bytes().startswith(b"GIF89a")


@pytest.mark.parametrize("where", ["disk", "bucket"])
def test_the_newest_page_of_a_run_is_found_on_a_disk_and_in_a_bucket(
    request: pytest.FixtureRequest, tmp_path: Path, where: str
) -> None:
    workdir = tmp_path if where == "disk" else request.getfixturevalue("bucket_address")
    run = create(workdir, resolved(run_name="run"))
    assert games.newest(run) is None
    replays = run.place / "replays"
    replays.claim()
    for name in ("900.html", "1000.html", "1000.new"):
        (replays / name).write(name)
    assert games.newest(run) == "1000.html"


def test_a_page_of_a_run_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    run = create(tmp_path, resolved(run_name="run"))
    run.replays.symlink_to("replays")
    assert games.newest(run) is None
    run.replays.unlink()
    run.replays.mkdir()
    (run.replays / "400.html").mkdir()
    (run.replays / "300.html").symlink_to("300.html")
    (run.replays / "200.html").write_bytes(b"\xff")
    assert games.newest(run) is None
    (run.replays / "100.html").write_text("a game")
    assert games.newest(run) == "a game"


@pytest.mark.usefixtures("retries_without_waiting")
def test_pages_in_a_bucket_that_is_away_are_not_passed_over(
    bucket_address: str, bucket_service: Service
) -> None:
    run = create(bucket_address, resolved(run_name="run"))
    with bucket_service.failing("refuse"), pytest.raises(Unavailable):
        games.newest(run)
