"""The batched step compiles for a TPU slice, and each device steps its own boards."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hackmatrix.parallel import slices

pytest.importorskip("libtpu", reason="libtpu, which compiles for TPUs, is not installed")
pytestmark = pytest.mark.tpu

ROOT = Path(__file__).parents[2]
HBM_A_CHIP = 32 * 2**30
MOST_LOOPS = 40


@pytest.mark.parametrize("described", slices.TPUS, ids=lambda each: each.name)
def test_a_slice_has_its_stated_devices_and_hosts(described: slices.Slice) -> None:
    devices = described.devices()
    assert described.chips == len(devices)
    assert described.hosts == len({device.process_index for device in devices})


def test_names_count_cores_or_chips_as_google_does() -> None:
    chips = {each.name: each.chips for each in slices.TPUS}
    assert chips["v4-8"] == chips["v5p-8"] == chips["v5e-4"] == chips["v6e-4"] == 4
    assert max(chips.values()) == 64  # more chips cannot share the groups of boards


@pytest.mark.slow  # test_preflight.py already shows that the kernel compiles
def test_a_step_has_no_collectives_and_as_one_kernel_a_fraction_of_the_code() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "launch.bench", "env", "--slice=v4-8", "--json"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    program, kernel = (line for line in lines if line["what"] == "compiled")
    assert (program["kernels"], kernel["kernels"]) == (False, True)
    for each in program, kernel:
        assert each["collectives"] == []
        assert each["temporary_bytes"] < HBM_A_CHIP / 100
    assert program["loops"] <= MOST_LOOPS
    assert kernel["loops"] == 0
    assert kernel["fusions"] < 40
    assert 0 < 3 * kernel["instructions"] < program["instructions"]
    assert 0 < 4 * kernel["code_bytes"] < program["code_bytes"]
