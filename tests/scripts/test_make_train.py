"""What `make train` runs, on each kind of machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("accelerator", "file"), [("cpu", "minutes"), ("cuda", "gpu"), ("tpu", "v4_8")]
)
def test_it_trains_by_the_file_for_the_accelerator_and_then_what_is_given(
    accelerator: str, file: str
) -> None:
    wanted = [f"ACCELERATOR={accelerator}", "TRAIN_ARGS=--config.seed=1"]
    told = subprocess.run(
        ["make", "--dry-run", "train", *wanted],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (config,) = re.findall(r"launch.train --config=(\S+) --config.seed=1\n", told)
    assert config == f"configs/{file}.py"
    assert (ROOT / config).is_file()
