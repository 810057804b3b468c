"""Exported policies act as the checkpoint does, also where there is no JAX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from hackmatrix.envs.headless.view import observation
from hackmatrix.envs.hosted import HostedGames, describe
from hackmatrix.ppo import policy as masking
from hackmatrix.networks.actor_critic import outputs
from hackmatrix.standalone import seeing
from hackmatrix.standalone.policy import NumpyPolicy
from hackmatrix.train import arrays, policies
from hackmatrix.train.policies.artifact import artifact
from hackmatrix.train.policies.policy import Policy
from tests.train.policies.saved_policies import saved_run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return policies.of_run(saved_run(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def file(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("exported") / "policy.npz"
    arrays.write(file, policy.params, policies.about(policy))
    return file


@pytest.fixture(scope="module")
def played() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observations and masks of games at random, and what the protocol's client makes of them."""
    rng, games = np.random.default_rng(5), HostedGames(1)
    games.seed(0, rng)
    turn = games.begin()
    rows = []
    for _ in range(150):
        board = describe(games.board(0))
        rows.append((turn.observation[0], turn.mask[0],
                     seeing.vector(observation(board, board["owned"], ()))))  # fmt: skip
        over = turn.outcome.done
        actions = np.array([rng.choice(np.flatnonzero(turn.mask[0]))])
        turn = games.play(actions, np.asarray(over, bool))
    observed, masks, seen = (np.stack(column) for column in zip(*rows, strict=True))
    return observed, masks, seen


def test_a_client_of_the_protocol_sees_what_the_agent_sees(
    played: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    observed, _, seen = played
    np.testing.assert_allclose(seen, observed, rtol=1e-6)


def test_checkpoint_arrays_and_artifact_act_alike(
    policy: Policy, file: Path, played: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> None:
    observed, masks, seen = played
    logits, value = outputs(policy.network, policy.params, jax.numpy.asarray(observed))
    chosen = np.asarray(masking.masked(logits, jax.numpy.asarray(masks)).mode())
    assert len(set(chosen.tolist())) > 3

    plain = NumpyPolicy(file)
    assert [plain.act(*each) for each in zip(seen, masks, strict=True)] == chosen.tolist()
    np.testing.assert_allclose(plain.outputs(seen)[1], value, rtol=1e-3, atol=1e-4)

    exported = jax.export.deserialize(bytearray(artifact(policy)))
    for part in (slice(None), slice(0, 1)):  # any number of boards
        said = exported.call(observed[part], masks[part])
        assert np.asarray(said["action"]).tolist() == chosen[part].tolist()
        np.testing.assert_allclose(said["logits"], logits[part], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(said["value"], value[part], rtol=1e-3, atol=1e-4)


def test_without_jax_a_policy_plays_over_the_protocol(file: Path, tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax/__init__.py").write_text("raise ImportError('there is no JAX here')")
    # The path is for the client alone; the game it starts needs JAX.
    server = f"env PYTHONPATH={ROOT} {sys.executable} -m launch.serve --headless-cli --seed=3"
    played = subprocess.run(
        [sys.executable, "-m", "launch.drive", f"--policy={file}", f"--server={server}"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{tmp_path}"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    assert played.stdout.startswith("game 0: return ")


def test_a_file_that_is_no_policy_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "policy.npz"
    file.write_bytes(b"no archive")
    refused = subprocess.run(
        [sys.executable, "-m", "launch.drive", f"--policy={file}"],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert refused.stderr.startswith("launch.drive: ")
    assert len(refused.stderr.splitlines()) == 1
