"""What an earlier revision saved still works: its run resumes and its policy plays, as then.

saved_by_2b050d8/README.md says what lies there and how it was made.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from hackmatrix.networks import files
from hackmatrix.standalone import driving
from hackmatrix.standalone.policy import NumpyPolicy
from tests.compiling import xla_flags
from tests.envs.headless.asking import LocalProgram

ROOT = Path(__file__).parents[2]
SAVED = Path(__file__).parent / "saved_by_2b050d8"
THEN = json.loads((SAVED / "expected.json").read_text())
DECIDED = np.load(SAVED / "decisions.npz")
RUN, STEP = "saved-before-rooms", 25_600
ONE_DEVICE = {"XLA_FLAGS": xla_flags(devices=1)}  # as many as then


def program(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", f"launch.{name}", *arguments],
        cwd=ROOT, env={**os.environ, **environment},
        text=True, timeout=400, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def nearly(then: Any) -> Any:
    """Equal up to rounding, as another processor may add in another order."""
    return pytest.approx(then, rel=1e-4, abs=1e-5)


def unpacked(workdir: Path) -> Path:
    """Unpacks the saved run into this directory."""
    shutil.unpack_archive(SAVED / "run.zip", workdir)
    return workdir / RUN


@pytest.fixture(scope="module")
def run_flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The flags that name the run, for programs that do not write to it."""
    return [f"--run={RUN}", f"--workdir={unpacked(tmp_path_factory.mktemp('runs')).parent}"]


def metrics(run: Path) -> list[dict[str, float]]:
    """Returns the metrics of each chunk without the times, which always differ."""
    chunks = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in chunk.items() if not re.match(r"perf/|time", name)}
        for chunk in chunks
    ]


def test_a_saved_run_resumes_as_it_did_then(tmp_path: Path) -> None:
    run = unpacked(tmp_path)
    before, (*_, end) = metrics(run), THEN["metrics"]
    printed = program(
        "train", f"--workdir={tmp_path}", f"--resume={RUN}", "--config.eval_episodes=0",
        f"--config.total_timesteps={end['step']}", **ONE_DEVICE,
    ).stdout  # fmt: skip
    assert f"Resuming from the checkpoint at step {STEP:,}" in printed
    assert not re.search("damaged|changed since|unfinished|begin new games", printed)
    after = metrics(run)
    assert after[: len(before)] == before
    assert len(after) == len(before) + len(THEN["metrics"])
    for now, then in zip(after[len(before) :], THEN["metrics"], strict=True):
        assert {name: now[name] for name in then} == nearly(then)  # there may be more today
        for counted in ("step", "train/num_episodes", "stats/highest_stage"):
            assert now[counted] == then[counted]


def test_its_policy_reaches_the_same_results_as_then(run_flags: list[str]) -> None:
    then = THEN["evaluation"]
    flags = [*run_flags, "--greedy", "--json", f"--episodes={then['episodes']}"]
    now = json.loads(program("evaluate", *flags, **ONE_DEVICE).stdout)
    for about in ("policy", "step", "episodes", "seed", "greedy"):
        assert now[about] == then[about]
    for player in ("agent", "random"):
        for tag, estimate in then[player].items():
            # The confidence intervals are computed differently now.
            assert now[player][tag]["mean"] == nearly(estimate["mean"]), tag


def test_its_policy_plays_the_same_game_as_then(run_flags: list[str], tmp_path: Path) -> None:
    page = tmp_path / "game.html"
    printed = program("watch", *run_flags, "--episode=2", f"--html={page}").stdout
    assert printed == f"{page}: {THEN['watched']}\n"
    assert f"{RUN} at step {STEP:,}, game 2 of seed 0" in page.read_text()


def test_its_report_has_its_curves_and_the_game_that_it_saved(
    run_flags: list[str], tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    printed = program("report", *run_flags, f"--out={page}").stdout
    assert printed == f"{page}: up to step {STEP:,}, with a game\n"
    assert RUN in page.read_text()


def test_its_export_is_the_same_as_then(run_flags: list[str], tmp_path: Path) -> None:
    program("export", *run_flags, f"--out={tmp_path}")
    (now, about), (then, about_then) = (
        files.read(directory / "policy.npz") for directory in (tmp_path, SAVED)
    )
    jax.tree.map(np.testing.assert_array_equal, now, then)
    for name in ("env", "run", "step"):
        assert getattr(about, name) == getattr(about_then, name)
    assert_decided_as_then(**compiled(tmp_path / "policy.jax"))


def compiled(file: Path) -> dict[str, Any]:
    """Returns the outputs of a compiled policy for the boards of decisions.npz."""
    policy = jax.export.deserialize(bytearray(file.read_bytes()))
    return dict(policy.call(DECIDED["observation"], DECIDED["mask"]))


def assert_decided_as_then(action: Any, logits: Any, value: Any) -> None:
    np.testing.assert_array_equal(action, DECIDED["action"])
    np.testing.assert_allclose(logits, DECIDED["logits"], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(value, DECIDED["value"], rtol=1e-4, atol=1e-4)


def test_a_compiled_policy_of_then_still_decides_the_same() -> None:
    assert_decided_as_then(**compiled(SAVED / "policy.jax"))


def test_a_policy_of_plain_arrays_of_then_still_names_its_origin() -> None:
    _, about = files.read(SAVED / "policy.npz")
    assert (about.run, about.step, about.spec.compute_dtype) == (RUN, STEP, "float32")


def test_a_policy_of_plain_arrays_of_then_still_decides_the_same() -> None:
    policy = NumpyPolicy(SAVED / "policy.npz")
    boards = zip(DECIDED["observation"], DECIDED["mask"], strict=True)
    actions = [policy.act(observation, mask) for observation, mask in boards]
    logits, value = policy.outputs(DECIDED["observation"])
    assert_decided_as_then(actions, logits, value)


def test_a_policy_of_plain_arrays_of_then_still_plays_the_same_games() -> None:
    game, policy = LocalProgram(THEN["driven"]["seed"]), NumpyPolicy(SAVED / "policy.npz")
    for then in THEN["driven"]["games"]:
        now = driving.play(game, driving.at_once(policy))
        assert now.actions == then["actions"]
        assert (now.stage, now.score) == (then["stage"], then["score"])
        assert now.total == nearly(then["total"])
