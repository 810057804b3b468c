"""Extensions from outside the package, made by the recipes of CONTRIBUTING.md."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from configs import default
from hackmatrix.envs import conformance, make
from hackmatrix.errors import UserError
from hackmatrix.networks import files
from hackmatrix.parallel.mesh import over
from hackmatrix.standalone.policy import NumpyPolicy
from hackmatrix.train.plan import Request, make_plan
from hackmatrix.train.program import Program
from tests.compiling import COMPILE_FAST
from tests.train.settings import config as small

ROOT = Path(__file__).parents[2]
OUTSIDE = Path(__file__).parent / "outside"
BATCH = 16 * 256  # of reinforce_config
CORRIDOR = "--config.env=toy_environment:Corridor"
TOY = "--config.network=toy_network:Toy"
STEEP = f"{TOY}(steepness=3.0)"
SIZES = (
    "--config.num_envs=8", "--config.num_steps=8", "--config.num_minibatches=1",
    "--config.update_epochs=1", "--config.hidden_dim=8", "--config.log_interval=2",
    "--config.eval_episodes=0", "--config.run_name=toy",
)  # fmt: skip


def run(*arguments: str | Path) -> str:
    """Runs a program with the modules in OUTSIDE on its path, and returns what it prints."""
    done = attempt(*arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


def attempt(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (ROOT, OUTSIDE, os.environ["PYTHONPATH"])))
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "XLA_FLAGS": COMPILE_FAST},
        text=True,
        timeout=400,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def train(workdir: Path, *arguments: str | Path) -> str:
    return run("-m", "launch.train", f"--workdir={workdir}", *arguments)


def metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def config(run: Path) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads((run / "config.json").read_text())
    return settings


@pytest.fixture(scope="module")
def network_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the toy network in the corridor, both with arguments, resumed once."""
    workdir = tmp_path_factory.mktemp("network")
    train(workdir, f"{CORRIDOR}(length=5)", STEEP, "--config.total_timesteps=256", *SIZES)
    output = train(workdir, "--resume=toy", "--config.total_timesteps=512")
    assert "Resuming from the checkpoint at step 256" in output
    return workdir / "toy"


def test_a_custom_network_trains_and_resumes(network_run: Path) -> None:
    assert config(network_run)["network"] == "toy_network:Toy(steepness=3.0)"
    assert [line["step"] for line in metrics(network_run)] == [128, 256, 384, 512]


def test_a_custom_network_is_exported_in_both_forms(network_run: Path) -> None:
    run("-m", "launch.export", f"--run={network_run}")
    exported = network_run / "exported"
    seen = np.random.default_rng(0).random((4, 5), np.float32)
    compiled = jax.export.deserialize(bytearray((exported / "policy.jax").read_bytes()))
    expected = compiled.call(seen, np.ones((4, 2), bool))
    _, about = files.read(exported / "policy.npz")
    assert about.spec.network == "toy_network:Toy(steepness=3.0)"
    assert about.in_numpy == "toy_network_in_numpy:toy"
    sys.path.append(str(OUTSIDE))
    try:
        logits, values = NumpyPolicy(exported / "policy.npz").outputs(seen)
    finally:
        sys.path.remove(str(OUTSIDE))
    np.testing.assert_allclose(logits, expected["logits"], atol=1e-5)
    np.testing.assert_allclose(values, expected["value"], atol=1e-5)
    assert np.ptp(logits) > 1e-3


@pytest.mark.slow  # HackMatrix takes longest to compile, and only its games are drawn
def test_a_game_of_a_custom_network_is_drawn(tmp_path: Path) -> None:
    train(tmp_path, TOY, "--config.total_timesteps=128", *SIZES)
    run("-m", "launch.export", f"--run={tmp_path}/toy")  # its forward passes agree on many parts
    page = tmp_path / "game.html"
    run("-m", "launch.watch", f"--run={tmp_path}/toy", f"--html={page}")
    assert "toy at step 128, game 0" in page.read_text()


@pytest.fixture(scope="module")
def reinforce_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workdir = tmp_path_factory.mktemp("algorithm")
    configured = f"--config={OUTSIDE}/reinforce_config.py"
    train(workdir, configured, "--config.run_name=mine", "--config.save_interval=20")
    return workdir / "mine"


def test_a_custom_algorithm_is_short_and_learns(reinforce_run: Path) -> None:
    assert len((OUTSIDE / "reinforce.py").read_text().splitlines()) < 100
    returns = [line["train/mean_episode_return"] for line in metrics(reinforce_run)]
    assert returns[0] < 60
    assert max(returns) > 180


def test_a_custom_algorithm_resumes_bit_for_bit(reinforce_run: Path, tmp_path: Path) -> None:
    shutil.copytree(reinforce_run, resumed := tmp_path / "mine")
    shutil.rmtree(resumed / f"checkpoints/{50 * BATCH}")
    output = train(tmp_path, "--resume=mine")
    assert f"Resuming from the checkpoint at step {40 * BATCH:,}" in output
    assert digests(resumed, 50 * BATCH) == digests(reinforce_run, 50 * BATCH)


def digests(run: Path, step: int) -> Any:
    """Returns the digest of every leaf in a checkpoint; equal digests mean equal states."""
    return json.loads((run / f"checkpoints/{step}/record/metadata").read_text())["digests"]


def test_a_custom_setting_is_checked_and_saved(reinforce_run: Path, tmp_path: Path) -> None:
    assert config(reinforce_run)["baseline_decay"] == 0.9
    refused = attempt(
        "-m",
        "launch.train",
        f"--workdir={tmp_path}",
        f"--config={OUTSIDE}/reinforce_config.py",
        "--config.baseline_decay=2.0",
    )
    assert refused.returncode == 1
    last = refused.stdout.splitlines()[-1]
    assert last == "launch.train: baseline_decay=2.0 must be a number from 0 to 1"


def test_a_run_from_before_a_setting_existed_gets_the_value_for_such_runs(
    reinforce_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its declaration says which, and that need not be the default (`before` in reinforce.py)."""
    monkeypatch.syspath_prepend(OUTSIDE)
    older = config(reinforce_run)
    del older["baseline_decay"]
    directory = tmp_path / "older"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(older))
    plan, _ = make_plan(Request({**default.get_config(), "resume": "older"}, {}, tmp_path))
    assert plan.lease is not None
    plan.lease.give_back()
    assert plan.config.settings()["baseline_decay"] == 0.8


class Walk(NamedTuple):
    output: str
    run: Path


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """A run in the corridor with a custom sink, trained until it always reaches the goal."""
    workdir = tmp_path_factory.mktemp("walk")
    output = run(
        OUTSIDE / "train_with_sink.py",
        f"--workdir={workdir}",
        CORRIDOR,
        "--config.num_envs=16",
        "--config.num_steps=16",
        "--config.hidden_dim=16",
        "--config.lr=0.01",
        "--config.total_timesteps=30720",
        "--config.ent_coef=0.01",
        "--config.eval_episodes=64",
        "--config.run_name=walk",
    )
    return Walk(output, workdir / "walk")


def test_a_custom_sink_receives_every_chunk(walk: Walk) -> None:
    received = [line.split()[1:] for line in walk.output.splitlines() if line.startswith("sink: ")]
    chunks = metrics(walk.run)
    assert received[-1] == ["closed"]
    assert [int(step) for step, _ in received[:-1]] == [chunk["step"] for chunk in chunks]
    assert len(chunks) == 12


def test_an_agent_learns_to_play_a_custom_environment(walk: Walk) -> None:
    assert "reached (%)" in walk.output
    reached = json.loads((walk.run / "evaluation.json").read_text())
    assert reached["agent"]["corridor/reached"]["mean"] == 1
    assert reached["random"]["corridor/reached"]["mean"] < 0.8


def test_a_custom_environment_follows_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(OUTSIDE)
    conformance.check(make("toy_environment:Corridor"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"network": "nowhere:Toy"},
            "nowhere:Toy: there is no module 'nowhere' on Python's path",
        ),
        (
            {"network": "__main__:Tay"},
            "move it from the notebook or program into a module of its own",
        ),
        (
            {"algorithm": "reinforce"},
            'algorithm=\'reinforce\' must be "ppo", "expert" or "MODULE:NAME"',
        ),
        (
            {"network": "convolution"},
            'network=\'convolution\' must be "mlp", "centred", "conv", "cells" or',
        ),
    ],
)
def test_an_unknown_name_is_reported_in_one_line(given: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as raised:
        Program(small(**given), over(jax.devices()[:1]))
    (line,) = str(raised.value).splitlines()
    assert message in line


def test_a_program_reports_an_unknown_name_without_a_traceback(tmp_path: Path) -> None:
    name = "toy_network:Tay"
    refused = attempt("-m", "launch.train", f"--workdir={tmp_path}", f"--config.network={name}")
    assert refused.returncode == 1
    last = refused.stdout.splitlines()[-1]
    assert last == f"launch.train: {name}: the module 'toy_network' has no 'Tay'"
    assert "Traceback" not in refused.stdout
