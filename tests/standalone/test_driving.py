"""An exported policy plays the game of another program, also where there is no JAX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from hackmatrix import networks
from hackmatrix.envs import make
from hackmatrix.networks import Spec, files
from hackmatrix.networks.files import About

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An untrained policy."""
    env = make("hackmatrix")
    spec = Spec("mlp", 16, 1, 1, separate_critic=False, compute_dtype="float32")
    params = networks.make(spec, env).init(jax.random.key(0))
    about = About(env.name, dict(env.observation), env.action_names, "untrained", 0, spec)
    files.write(tmp_path / "policy.npz", params, about)
    return tmp_path / "policy.npz"


def test_without_jax_a_policy_plays_over_the_protocol(file: Path, tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax/__init__.py").write_text("raise ImportError('there is no JAX here')")
    # The path is for the client alone; the game it starts needs JAX.
    server = f"env PYTHONPATH={ROOT} {sys.executable} -m launch.serve --headless-cli --seed=3"
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


def test_a_file_that_is_no_policy_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "policy.npz"
    file.write_bytes(b"no archive")
    refused = subprocess.run(
        [sys.executable, "-m", "launch.drive", f"--policy={file}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith("launch.drive: ")
    assert len(refused.stderr.splitlines()) == 1
