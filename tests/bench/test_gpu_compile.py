"""Programs compile for GPUs that this machine does not have."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hackmatrix.parallel.gpus import GPUS, Gpus

ROOT = Path(__file__).parents[2]
COMPILER = ROOT / ".cache/compiler-for-gpus"
needs_compiler = pytest.mark.skipif(
    not COMPILER.exists(),
    reason="no compiler for GPUs: make .cache/compiler-for-gpus",
)
CARTPOLE = (
    "--config.env=gymnax:CartPole-v1", "--config.num_steps=8", "--config.num_layers=1",
    "--config.hidden_dim=8",
)  # fmt: skip


def launched(program: str, *arguments: str, path: Path | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"launch.{program}", *arguments],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(path)},
    )  # fmt: skip


def test_names_state_the_model_and_the_number_of_gpus() -> None:
    assert [each.name for each in GPUS][2:4] == ["h100-1", "h100-8"]


@pytest.mark.parametrize("gpus", GPUS[::2], ids=lambda each: each.model.name)
def test_a_program_gets_the_three_quarters_of_the_memory_that_jax_takes(gpus: Gpus) -> None:
    assert gpus.memory_of_a_program / gpus.memory == pytest.approx(0.75)
    assert gpus.memory >= 79 * 2**30


@needs_compiler
def test_training_compiles_for_eight_gpus_and_all_reduces_gradients() -> None:
    done = launched("preflight", "--slice=h100-8", "--json", *CARTPOLE, path=COMPILER)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"slice": "h100-8", "devices": 8, "hosts": 1, "fits": True}.items() <= found.items()
    parameters = 4 * 8 + 8 + 8 * 2 + 2 + 8 + 1
    assert found["collectives"] == [{"kind": "all-reduce", "size": 4 * parameters}]


@pytest.mark.slow
@needs_compiler
def test_a_step_is_few_fusions_or_one_pallas_kernel_and_an_op_that_joins_its_words() -> None:
    done = launched("bench", "env", "--slice=h100-1", "--json", path=COMPILER)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    program, kernel = lines
    assert (program["kernels"], kernel["kernels"]) == (False, True)
    for each in lines:
        assert each["fusions"] + each["others"] < 150
    assert program["loops"] <= 4
    assert (kernel["loops"], kernel["others"]) == (0, 1)
    assert 5_000 < program["instructions"] < 50_000
    assert (
        kernel["instructions"] < program["instructions"] / 5
    )  # without those that Mosaic generates


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "env", "--slice=h100-1"],
        ["bench", "scaling", "--processes=1", "--slices=h100-1"],
        ["preflight", "--slice=h100-1"],
    ],
    ids=" ".join,
)
def test_without_the_compiler_the_last_line_says_how_to_get_it(arguments: list[str]) -> None:
    done = launched(*arguments, path="")
    assert (done.returncode, done.stdout) == (1, "")  # before anything was measured
    assert "make .cache/compiler-for-gpus" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
