"""Programs that look at a policy: what they say to a mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def start(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"launch.{program}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize(
    ("program", "arguments", "said"),
    [
        ("evaluate", [], "say --run=RUN or --policy=FILE"),
        ("export", ["--run=a", "--policy=b"], "say --run=RUN or --policy=FILE"),
        ("watch", ["--run=a", "--episode=-1"], "-1 is not a non-negative integer"),
        ("play", ["again"], "'again' is no flag"),
        ("drive", ["--games=2"], "say --policy=FILE, and nothing besides flags"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_line(
    program: str, arguments: list[str], said: str
) -> None:
    refused = start(program, *arguments)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"launch.{program}: ")
    assert len(refused.stderr.splitlines()) == 1
    assert said in refused.stderr


def test_only_a_run_has_a_best_policy() -> None:
    refused = start("export", "--policy=some.npz", "--best")
    assert refused.returncode == 1
    last = refused.stderr.splitlines()[-1]
    assert last == "launch.export: some.npz is one policy; only a run has a best one"


def test_a_run_that_is_not_there_is_told_in_one_line_after_a_sign_of_life(tmp_path: Path) -> None:
    refused = start("export", "--run=lost", f"--workdir={tmp_path}")
    first, *_, last = refused.stderr.splitlines()
    assert refused.returncode == 1
    assert first == "launch.export: loading JAX and the policy ..."
    assert last == f"launch.export: there is no run 'lost' in {tmp_path}"
    assert "Traceback" not in refused.stderr
